/* Writes one launch to a folder: its geometry, parameters, maps, image, and the memory before and after it. */

#define _GNU_SOURCE
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BUFFERS = 4096, MAX_PARAMETERS = 4096, MAX_PARAMETER_BYTES = 32764, CHUNK = 8 << 20, NAME = 64 };
/* Allocations of at most this many bytes are searched for pointers to further allocations. */
enum { SEARCHED = 32 << 20 };

struct buffer {
    CUdeviceptr address;
    size_t size;
    bool copied, changed;
    char problem[256];
    const char *variable; /* the name of a variable of the module, else NULL */
};

static struct {
    FILE *json;
    char name[4096];
    unsigned char parameters[MAX_PARAMETER_BYTES + 8];
    size_t parameter_bytes;
    struct {
        size_t offset, size;
    } layout[MAX_PARAMETERS];
    size_t parameter_count;
    struct buffer buffers[MAX_BUFFERS];
    size_t buffer_count;
    uint64_t copied;
    unsigned char *chunk, *earlier;
} state;

/* ------------------------------------------------------------------ files */

static void path_of(char *path, size_t size, const char *name) { snprintf(path, size, "%s/%s", config.folder, name); }

static int open_file(const char *name, int flags) {
    char path[4200];
    path_of(path, sizeof path, name);
    return open(path, flags | O_CLOEXEC, 0666);
}

/* Write everything; write() itself refuses memory that cannot be read, so no signal is raised. */
static bool write_all(int file, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t written = write(file, at, size < (1u << 30) ? size : (1u << 30));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

static bool write_file(const char *name, const void *data, size_t size) {
    int file = open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    if (file < 0)
        return false;
    bool done = write_all(file, data, size);
    return close(file) == 0 && done;
}

static bool read_all(int file, void *data, size_t size, off_t at) {
    while (size) {
        ssize_t got = pread(file, data, size, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        data = (char *)data + got;
        size -= (size_t)got;
        at += got;
    }
    return true;
}

/* ------------------------------------------------------------------ JSON */

/* A string; bytes that are not ASCII are left as they are, in the encoding of the system. */
static void json_text(const char *text) {
    fputc('"', state.json);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(state.json, "\\%c", c);
        else if (c < 32)
            fprintf(state.json, "\\u%04x", c);
        else
            fputc(c, state.json);
    }
    fputc('"', state.json);
}

static void json_bytes(const unsigned char *data, size_t size) {
    fputc('"', state.json);
    for (size_t n = 0; n < size; n++)
        fprintf(state.json, "%02x", data[n]);
    fputc('"', state.json);
}

static void json_wide(const char *key, const uint64_t *numbers, size_t count) {
    fprintf(state.json, ", \"%s\": [", key);
    for (size_t n = 0; n < count; n++)
        fprintf(state.json, "%s%" PRIu64, n ? ", " : "", numbers[n]);
    fputc(']', state.json);
}

static void json_words(const char *key, const uint32_t *numbers, size_t count) {
    uint64_t wide[5] = {0};
    for (size_t n = 0; n < count; n++)
        wide[n] = numbers[n];
    json_wide(key, wide, count);
}

static void json_signed(const char *key, const int32_t *numbers, size_t count) {
    fprintf(state.json, ", \"%s\": [", key);
    for (size_t n = 0; n < count; n++)
        fprintf(state.json, "%s%" PRId32, n ? ", " : "", numbers[n]);
    fputc(']', state.json);
}

static void json_map(const struct map *map) {
    fputs("{\"bytes\": ", state.json);
    json_bytes(map->bytes, sizeof map->bytes);
    fprintf(state.json, ", \"mode\": \"%s\", \"address\": %" PRIu64 ", \"type\": %" PRIu32, map->mode, map->address,
            map->type);
    json_wide("dimensions", map->dimensions, map->rank);
    json_wide("strides", map->strides, map->rank ? map->rank - 1 : 0);
    json_words("element_strides", map->element_strides, map->rank);
    if (strcmp(map->mode, "tile") == 0) {
        json_words("box", map->box, map->rank);
    } else {
        size_t corners = strcmp(map->mode, "im2col") == 0 && map->rank > 2 ? map->rank - 2 : 1;
        json_signed("lower", map->lower, corners);
        json_signed("upper", map->upper, corners);
        fprintf(state.json, ", \"channels\": %" PRIu32 ", \"pixels\": %" PRIu32 ", \"wide\": %" PRId32, map->channels,
                map->pixels, map->wide);
    }
    fprintf(state.json, ", \"interleave\": %" PRIu32 ", \"swizzle\": %" PRIu32 ", \"fill\": %" PRIu32 "}",
            map->interleave, map->swizzle, map->fill);
}

/* ------------------------------------------------------------------ parameters */

static const char *error_name(CUresult result) {
    const char *name = NULL;
    return driver.cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

static CUresult parameter_info(const struct launch *launch, size_t index, size_t *offset, size_t *size) {
    return launch->is_kernel ? driver.cuKernelGetParamInfo((CUkernel)launch->function, index, offset, size)
                             : driver.cuFuncGetParamInfo(launch->function, index, offset, size);
}

/* The parameters as one buffer, from `extra`: pairs of a key and a value, up to a NULL. */
static bool packed_parameters(const struct launch *launch) {
    void *pairs[8] = {NULL}, *data = NULL;
    size_t size = 0;
    for (int n = 0; n < 8; n += 2) {
        if (!read_safely(&pairs[n], launch->extra + n, sizeof *pairs) || pairs[n] == CU_LAUNCH_PARAM_END)
            break;
        if (!read_safely(&pairs[n + 1], launch->extra + n + 1, sizeof *pairs))
            return false;
        if (pairs[n] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            data = pairs[n + 1];
        else if (pairs[n] == CU_LAUNCH_PARAM_BUFFER_SIZE && !read_safely(&size, pairs[n + 1], sizeof size))
            return false;
    }
    if (!data || size > MAX_PARAMETER_BYTES)
        return false;
    state.parameter_bytes = size;
    return read_safely(state.parameters, data, size);
}

static bool read_parameters(const struct launch *launch) {
    size_t offset = 0, size = 0, end = 0, count = 0;
    memset(state.parameters, 0, sizeof state.parameters);
    while (count < MAX_PARAMETERS && parameter_info(launch, count, &offset, &size) == CUDA_SUCCESS) {
        if (offset > MAX_PARAMETER_BYTES || size > MAX_PARAMETER_BYTES - offset) {
            note("error parameter %zu has %zu bytes at offset %zu", count, size, offset);
            return false;
        }
        state.layout[count].offset = offset;
        state.layout[count++].size = size;
        end = offset + size > end ? offset + size : end;
    }
    state.parameter_count = count;
    state.parameter_bytes = end;
    if (!launch->parameters && launch->extra) {
        if (packed_parameters(launch))
            return true;
        note("error the parameters, given as one buffer, cannot be read");
        return false;
    }
    if (!launch->parameters && count) {
        note("error the launch passes no parameters to a kernel that has %zu", count);
        return false;
    }
    for (size_t n = 0; n < count; n++) {
        void *value = NULL;
        if (!read_safely(&value, launch->parameters + n, sizeof value) ||
            !read_safely(state.parameters + state.layout[n].offset, value, state.layout[n].size)) {
            note("error parameter %zu cannot be read", n);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ memory */

static struct buffer *known(CUdeviceptr address) {
    for (size_t n = 0; n < state.buffer_count; n++)
        if (address - state.buffers[n].address < state.buffers[n].size)
            return &state.buffers[n];
    return NULL;
}

/* Add the allocation that an address is in; an address outside all allocations is only a number. */
static void add_allocation(CUdeviceptr address) {
    CUdeviceptr base = 0;
    size_t size = 0;
    if (address < 4096 || known(address) || state.buffer_count == MAX_BUFFERS)
        return;
    if (driver.cuMemGetAddressRange_v2(&base, &size, address) != CUDA_SUCCESS || !size || address - base >= size)
        return;
    struct buffer *buffer = &state.buffers[state.buffer_count++];
    *buffer = (struct buffer){.address = base, .size = size};
    for (const struct buffer *other = state.buffers; other != buffer; other++)
        if (other->address - base < size) {
            state.buffer_count--; /* the variables of a module, which are recorded one by one */
            return;
        }
    CUdevice here = 0;
    int there = 0;
    if (driver.cuCtxGetDevice(&here) == CUDA_SUCCESS &&
        driver.cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base) == CUDA_SUCCESS &&
        there != (int)here)
        snprintf(buffer->problem, sizeof buffer->problem, "it belongs to GPU %d, and the launch to GPU %d", there,
                 (int)here);
}

/* Add a variable of the module, which the program may have written before the launch. */
static void add_variable(void *user, const char *name) {
    const struct launch *launch = user;
    CUdeviceptr address = 0;
    size_t size = 0;
    if (driver.cuModuleGetGlobal_v2(&address, &size, launch->module, name) != CUDA_SUCCESS || !size || known(address) ||
        state.buffer_count == MAX_BUFFERS)
        return;
    state.buffers[state.buffer_count++] = (struct buffer){.address = address, .size = size, .variable = name};
}

/* Add what the aligned words of *data* point to, and the tensors of the maps that are in it. */
static void search(const struct launch *launch, const unsigned char *data, size_t size) {
    CUdeviceptr low = UINT64_MAX, high = 0, word;
    const CUdeviceptr near = (CUdeviceptr)1 << 40; /* words far from all known allocations are not looked up */
    bool all = data == state.parameters;
    for (size_t n = 0; n < state.buffer_count; n++) {
        low = state.buffers[n].address < low ? state.buffers[n].address : low;
        high = state.buffers[n].address > high ? state.buffers[n].address : high;
    }
    for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        if (word && (all || (word + near >= low && word <= high + near && word >= (CUdeviceptr)1 << 32)))
            add_allocation(word);
    }
    for (size_t at = 0; at + 128 <= size; at += all ? 16 : 64) /* the driver's parameters begin at any offset */
        for (size_t n = 0; n < launch->map_count; n++)
            if (memcmp(data + at, launch->maps[n].bytes, 128) == 0)
                add_allocation(launch->maps[n].address);
}

static void buffer_file(char *name, const struct buffer *buffer, const char *when) {
    snprintf(name, NAME, "buffer_%zu.%s", (size_t)(buffer - state.buffers), when);
}

static void report(const struct buffer *buffer) {
    note("error the allocation of %zu bytes at 0x%llx is not recorded: %s", buffer->size,
         (unsigned long long)buffer->address, buffer->problem);
}

static void failed(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void failed(struct buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer->problem, sizeof buffer->problem, format, arguments);
    va_end(arguments);
    report(buffer);
}

static void copy_before(const struct launch *launch, struct buffer *buffer) {
    char name[NAME];
    buffer_file(name, buffer, "before");
    int file = open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    if (file < 0) {
        failed(buffer, "%s: %s", name, strerror(errno));
        return;
    }
    for (size_t at = 0; at < buffer->size && !*buffer->problem; at += CHUNK) {
        size_t size = buffer->size - at < CHUNK ? buffer->size - at : CHUNK;
        CUresult result = driver.cuMemcpyDtoH_v2(state.chunk, buffer->address + at, size);
        if (result != CUDA_SUCCESS)
            failed(buffer, "%s", error_name(result));
        else if (!write_all(file, state.chunk, size))
            failed(buffer, "%s: %s", name, strerror(errno));
        else if (buffer->size <= SEARCHED)
            search(launch, state.chunk, size);
    }
    buffer->copied = !*buffer->problem;
    if (close(file) != 0 && buffer->copied)
        failed(buffer, "%s: %s", name, strerror(errno));
}

/* Copy a buffer again. A file is left only if a byte has changed. */
static void copy_after(struct buffer *buffer) {
    char name[NAME], before[NAME];
    CUdeviceptr base = 0;
    size_t extent = 0;
    if (!buffer->variable && (driver.cuMemGetAddressRange_v2(&base, &extent, buffer->address) != CUDA_SUCCESS ||
                              base != buffer->address || extent != buffer->size)) {
        failed(buffer, "it was freed while the kernel ran");
        return;
    }
    buffer_file(before, buffer, "before");
    buffer_file(name, buffer, "after");
    int old = open_file(before, O_RDONLY), file = open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    if (old < 0 || file < 0)
        failed(buffer, "%s: %s", name, strerror(errno));
    for (size_t at = 0; at < buffer->size && !*buffer->problem; at += CHUNK) {
        size_t size = buffer->size - at < CHUNK ? buffer->size - at : CHUNK;
        CUresult result = driver.cuMemcpyDtoH_v2(state.chunk, buffer->address + at, size);
        if (result != CUDA_SUCCESS)
            failed(buffer, "%s", error_name(result));
        else if (!write_all(file, state.chunk, size) || !read_all(old, state.earlier, size, (off_t)at))
            failed(buffer, "%s: %s", name, strerror(errno));
        else
            buffer->changed |= memcmp(state.chunk, state.earlier, size) != 0;
    }
    if (old >= 0)
        close(old);
    if (file >= 0 && close(file) != 0 && !*buffer->problem)
        failed(buffer, "%s: %s", name, strerror(errno));
    if (!buffer->changed || *buffer->problem) {
        char path[4200];
        path_of(path, sizeof path, name);
        unlink(path);
    }
}

/* ------------------------------------------------------------------ the launch */

static void write_geometry(const struct launch *launch) {
    int version = 0;
    CUdevice device = 0;
    int major = 0, minor = 0;
    driver.cuDriverGetVersion(&version);
    driver.cuCtxGetDevice(&device);
    driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    fputs("{\"version\": 1, \"kernel\": ", state.json);
    json_text(launch->name);
    fprintf(state.json, ", \"nth\": %" PRIu64, config.nth);
    json_words("grid", launch->grid, 3);
    json_words("block", launch->block, 3);
    if (launch->cluster[0])
        json_words("cluster", launch->cluster, 3);
    fprintf(state.json, ", \"shared\": %u, \"cooperative\": %s, \"dependent\": %s, \"driver\": %d", launch->shared,
            launch->cooperative ? "true" : "false", launch->dependent ? "true" : "false", version);
    fprintf(state.json, ", \"device\": %d, \"capability\": [%d, %d]", (int)device, major, minor);
    fputs(",\n\"parameters\": {\"bytes\": ", state.json);
    json_bytes(state.parameters, state.parameter_bytes);
    fputs(", \"layout\": [", state.json);
    for (size_t n = 0; n < state.parameter_count; n++)
        fprintf(state.json, "%s[%zu, %zu]", n ? ", " : "", state.layout[n].offset, state.layout[n].size);
    fputs("]},\n\"maps\": [", state.json);
    for (size_t n = 0; n < launch->map_count; n++) {
        fputs(n ? ",\n" : "\n", state.json);
        json_map(&launch->maps[n]);
    }
    fputc(']', state.json);
}

/* The code of the kernel: the image that the program gave to the driver, and the cubin that the driver chose. */
static void write_image(const struct launch *launch) {
    const struct image *image = launch->image;
    if (image && image->path) {
        fputs(",\n\"image_path\": ", state.json);
        json_text(image->path);
    }
    if (image && image->data && write_file("image", image->data, image->size))
        fputs(",\n\"image\": \"image\"", state.json);
    if (launch->cubin && write_file("cubin", launch->cubin, launch->cubin_size))
        fputs(",\n\"cubin\": \"cubin\"", state.json);
}

static void write_buffers(void) {
    char name[NAME];
    fputs(",\n\"buffers\": [", state.json);
    for (size_t n = 0; n < state.buffer_count; n++) {
        const struct buffer *buffer = &state.buffers[n];
        fprintf(state.json, "%s{\"address\": %llu, \"size\": %zu", n ? ",\n" : "\n",
                (unsigned long long)buffer->address, buffer->size);
        if (buffer->variable) {
            fputs(", \"variable\": ", state.json);
            json_text(buffer->variable);
        }
        if (buffer->copied) {
            buffer_file(name, buffer, "before");
            fprintf(state.json, ", \"before\": \"%s\"", name);
        }
        if (buffer->changed && !*buffer->problem) {
            buffer_file(name, buffer, "after");
            fprintf(state.json, ", \"after\": \"%s\"", name);
        }
        if (*buffer->problem) {
            fputs(", \"problem\": ", state.json);
            json_text(buffer->problem);
        }
        fputc('}', state.json);
    }
    fputc(']', state.json);
}

/* The files that the process has mapped and that may contain the image: for a search of their PTX. */
static void write_objects(void) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[8192], last[4096] = "";
    const char *separator = "";
    fputs(",\n\"objects\": [", state.json);
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path)
            continue;
        path[strcspn(path, "\n")] = 0;
        if (strlen(path) >= sizeof last || strcmp(path, last) == 0 || strncmp(path, "/dev/", 5) == 0)
            continue;
        strcpy(last, path);
        fputs(separator, state.json);
        json_text(path);
        separator = ", ";
    }
    if (maps)
        fclose(maps);
    fputc(']', state.json);
}

static bool begin(const struct launch *launch) {
    state.buffer_count = state.copied = 0;
    snprintf(state.name, sizeof state.name, "%s", launch->name);
    char path[4200];
    path_of(path, sizeof path, "launch.json.partial");
    free(state.chunk);
    free(state.earlier);
    state.chunk = malloc(CHUNK);
    state.earlier = malloc(CHUNK);
    state.json = fopen(path, "we");
    if (state.json && state.chunk && state.earlier)
        return true;
    note("error %s: %s", path, strerror(errno));
    return false;
}

bool record_before(const struct launch *launch) {
    CUresult result = driver.cuCtxSynchronize();
    if (result != CUDA_SUCCESS) {
        note("error the GPU does not finish what precedes the launch: %s", error_name(result));
        return false;
    }
    if (!begin(launch) || !read_parameters(launch))
        return false;
    if (launch->module && launch->cubin)
        each_variable(launch->cubin, launch->cubin_size, add_variable, (void *)launch);
    search(launch, state.parameters, (state.parameter_bytes + 7) & ~(size_t)7);
    for (size_t n = 0; n < state.buffer_count; n++) { /* copying one may add further ones */
        struct buffer *buffer = &state.buffers[n];
        if (*buffer->problem)
            report(buffer);
        else if (buffer->size > config.limit - state.copied)
            failed(buffer, "%" PRIu64 " of at most %" PRIu64 " bytes are left", config.limit - state.copied,
                   config.limit);
        else {
            copy_before(launch, buffer);
            state.copied += buffer->size;
        }
    }
    if (state.buffer_count == MAX_BUFFERS)
        note("error the parameters lead to %d allocations or more, of which only these are recorded", MAX_BUFFERS);
    write_geometry(launch);
    write_image(launch);
    write_objects();
    return true;
}

/* Wait until the launch ends: "done", "unfinished", or the name of an error. */
static const char *wait_for(CUstream stream, CUresult result) {
    CUevent event = NULL;
    struct timespec nap = {0, 1000000}, began, now;
    if (result == CUDA_SUCCESS)
        result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = driver.cuEventRecord(event, stream);
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (result == CUDA_SUCCESS && (result = driver.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec) > config.seconds)
            return "unfinished";
        nanosleep(&nap, NULL);
        result = CUDA_SUCCESS;
    }
    if (event)
        driver.cuEventDestroy_v2(event);
    return result == CUDA_SUCCESS ? "done" : error_name(result);
}

void record_after(CUstream stream, CUresult result) {
    char from[4200], to[4200];
    const char *end = wait_for(stream, result);
    if (strcmp(end, "done") == 0)
        for (size_t n = 0; n < state.buffer_count; n++)
            if (state.buffers[n].copied)
                copy_after(&state.buffers[n]);
    write_buffers();
    fputs(",\n\"end\": ", state.json);
    json_text(end);
    fputs("}\n", state.json);
    bool written = !ferror(state.json);
    path_of(from, sizeof from, "launch.json.partial");
    path_of(to, sizeof to, "launch.json");
    if (fclose(state.json) != 0 || !written || rename(from, to) != 0)
        note("error %s: %s", to, strerror(errno));
    else
        note("recorded %s", state.name);
}
