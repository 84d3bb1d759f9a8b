/* The injection library: CUPTI calls it around driver functions, and it chooses the launch to record.
 *
 * The driver loads it into a program if CUDA_INJECTION64_PATH names it, and calls InitializeInjection. A Python program
 * that is already running loads it and calls tclint_begin and tclint_end. Nothing here may end or stop the program:
 * what fails is appended to the file `log`, and the program continues without being recorded.
 */

#define _GNU_SOURCE
#include "capture.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cupti.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_MAPS = 4096, MAX_NAMES = 512, MAX_IMAGES = 1 << 20 };

struct driver driver;
struct config config;

#define CUPTI_FUNCTIONS(F) \
    F(cuptiSubscribe, (CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *)) \
    F(cuptiEnableCallback, (uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId)) \
    F(cuptiGetResultString, (CUptiResult, const char **))

static struct {
#define MEMBER(name, parameters) CUptiResult(*name) parameters;
    CUPTI_FUNCTIONS(MEMBER)
#undef MEMBER
} cupti;

struct pair {
    const void *key, *value;
};

struct list {
    struct pair *pairs;
    size_t count, room;
};

static struct {
    pthread_mutex_t lock;
    bool subscribed, claimed; /* claimed: a launch was chosen, and no other one will be */
    uint64_t matches, captured, graphs;
    struct list functions; /* CUfunction or CUkernel -> what it was taken from */
    struct list kernels; /* CUkernel -> itself */
    struct image *images;
    size_t image_count, image_room;
    struct map maps[MAX_MAPS];
    size_t map_count;
    void *cubin; /* of the module loaded last that contains a kernel of the chosen name */
    size_t cubin_size;
    char *names[MAX_NAMES];
    size_t name_count;
    int log, pipe[2];
    pid_t process;
    CUpti_SubscriberHandle subscriber;
} state = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, .log = -1, .pipe = {-1, -1}};

static _Thread_local bool inside; /* calls that this library makes are not looked at */
static _Thread_local CUstream recording; /* of the launch between its two callbacks */
static _Thread_local bool is_recording;

/* ------------------------------------------------------------------ services */

void note(const char *format, ...) {
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || state.log < 0)
        return;
    size_t size = (size_t)length < sizeof line - 2 ? (size_t)length : sizeof line - 2;
    line[size++] = '\n';
    if (write(state.log, line, size) < 0)
        return; /* nothing is left to say it with */
}

bool read_safely(void *to, const void *from, size_t size) {
    while (size) {
        size_t part = size < 4096 ? size : 4096; /* fits into the pipe, so that write() does not block */
        ssize_t put = write(state.pipe[1], from, part);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0 || read(state.pipe[0], to, (size_t)put) != put)
            return false;
        from = (const char *)from + put;
        to = (char *)to + put;
        size -= (size_t)put;
    }
    return true;
}

static void remember(struct list *list, const void *key, const void *value) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        struct pair *pairs = realloc(list->pairs, room * sizeof *pairs);
        if (!pairs)
            return;
        list->pairs = pairs;
        list->room = room;
    }
    list->pairs[list->count++] = (struct pair){key, value};
}

/* What was remembered last of a handle; handles are used again after they are released. */
static const void *recall(const struct list *list, const void *key) {
    for (size_t n = list->count; n-- > 0;)
        if (list->pairs[n].key == key)
            return list->pairs[n].value;
    return NULL;
}

/* ------------------------------------------------------------------ images */

static uint64_t elf_size(const unsigned char *data) {
    Elf64_Ehdr header;
    if (!read_safely(&header, data, sizeof header) || header.e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    uint64_t end = header.e_shoff + (uint64_t)header.e_shentsize * header.e_shnum;
    uint64_t programs = header.e_phoff + (uint64_t)header.e_phentsize * header.e_phnum;
    end = programs > end ? programs : end;
    for (unsigned n = 0; n < header.e_shnum; n++) {
        Elf64_Shdr section;
        if (!read_safely(&section, data + header.e_shoff + (uint64_t)n * header.e_shentsize, sizeof section))
            return 0;
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
            end = section.sh_offset + section.sh_size;
    }
    return end;
}

static size_t text_size(const char *text) {
    char part[256];
    for (size_t size = 0; size < (size_t)1 << 30;) {
        size_t length = 256 - (uintptr_t)(text + size) % 256; /* never beyond a page that may be unmapped */
        if (!read_safely(part, text + size, length))
            return 0;
        size_t found = strnlen(part, length);
        if (found < length)
            return size + found;
        size += length;
    }
    return 0;
}

/* The first byte and the size of an image: a fatbin, also inside its wrapper, an ELF file, or PTX. */
static const void *extent(const void *image, size_t *size) {
    struct {
        uint32_t magic, version;
        const void *data;
    } wrapper;
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
    } fatbin;
    *size = 0;
    if (!read_safely(&wrapper, image, sizeof wrapper.magic))
        return NULL;
    if (wrapper.magic == 0x466243b1 && read_safely(&wrapper, image, sizeof wrapper))
        image = wrapper.data;
    if (!read_safely(&fatbin, image, sizeof fatbin))
        return NULL;
    if (fatbin.magic == 0xba55ed50)
        *size = fatbin.header + fatbin.size;
    else if (memcmp(&fatbin, ELFMAG, SELFMAG) == 0)
        *size = elf_size(image);
    else
        *size = text_size(image);
    return *size ? image : NULL;
}

static void remember_image(const void *handle, const void *data, const char *path) {
    if (state.image_count == state.image_room) {
        size_t room = state.image_room ? 2 * state.image_room : 64;
        struct image *images = room > MAX_IMAGES ? NULL : realloc(state.images, room * sizeof *images);
        if (!images)
            return;
        state.images = images;
        state.image_room = room;
    }
    struct image image = {.handle = handle};
    Dl_info where;
    if (path)
        image.path = strdup(path);
    if (data && (image.data = extent(data, &image.size)) && !dladdr(image.data, &where)) {
        void *copy = malloc(image.size); /* the program may free what is not part of a mapped file */
        if (!copy || !read_safely(copy, image.data, image.size)) {
            free(copy);
            copy = NULL;
        }
        image.data = copy;
    }
    state.images[state.image_count++] = image;
}

static const struct image *image_of(const void *handle) {
    for (size_t n = state.image_count; handle && n-- > 0;)
        if (state.images[n].handle == handle)
            return &state.images[n];
    return NULL;
}

/* Follow a handle through what it was taken from to the image of a module or a library. */
static const struct image *image_of_function(const void *function) {
    const void *handle = function;
    for (int step = 0; step < 4 && handle; step++) {
        const struct image *image = image_of(handle);
        if (image)
            return image;
        handle = recall(&state.functions, handle);
    }
    return NULL;
}

struct wanted {
    const char *pattern;
    bool glob, found;
};

static void compare_section(void *user, const char *name) {
    struct wanted *wanted = user;
    if (strncmp(name, ".text.", 6) == 0)
        wanted->found |= wanted->glob ? fnmatch(wanted->pattern, name + 6, 0) == 0 : !strcmp(wanted->pattern, name + 6);
}

/* Whether a cubin contains the code of a kernel: a section `.text.NAME`. */
static bool contains(const void *cubin, size_t size, const char *pattern, bool glob) {
    struct wanted wanted = {pattern, glob, false};
    each_section(cubin, size, compare_section, &wanted);
    return wanted.found;
}

/* ------------------------------------------------------------------ tensor maps */

static void remember_map(struct map *map, const CUtensorMap *made, const void *address, const cuuint64_t *dimensions,
                         const cuuint64_t *strides, const cuuint32_t *steps) {
    uint32_t rank = map->rank <= 5 ? map->rank : 5;
    memcpy(map->bytes, made, sizeof map->bytes);
    map->address = (uintptr_t)address;
    for (uint32_t n = 0; n < rank; n++) {
        map->dimensions[n] = dimensions[n];
        map->element_strides[n] = steps[n];
        if (n + 1 < rank)
            map->strides[n] = strides[n];
    }
    size_t kept = state.map_count < MAX_MAPS ? state.map_count : MAX_MAPS;
    for (size_t n = 0; n < kept; n++)
        if (memcmp(state.maps[n].bytes, map->bytes, sizeof map->bytes) == 0)
            return;
    state.maps[state.map_count++ % MAX_MAPS] = *map;
}

static void tiled(const cuTensorMapEncodeTiled_params *p) {
    struct map map = {.mode = "tile", .type = p->tensorDataType, .rank = p->tensorRank, .interleave = p->interleave,
                      .swizzle = p->swizzle, .fill = p->oobFill};
    for (uint32_t n = 0; n < p->tensorRank && n < 5; n++)
        map.box[n] = p->boxDim[n];
    remember_map(&map, p->tensorMap, p->globalAddress, p->globalDim, p->globalStrides, p->elementStrides);
}

static void im2col(const cuTensorMapEncodeIm2col_params *p) {
    struct map map = {.mode = "im2col", .type = p->tensorDataType, .rank = p->tensorRank, .interleave = p->interleave,
                      .swizzle = p->swizzle, .fill = p->oobFill, .channels = p->channelsPerPixel,
                      .pixels = p->pixelsPerColumn};
    for (uint32_t n = 0; n + 2 < p->tensorRank && n < 3; n++) {
        map.lower[n] = p->pixelBoxLowerCorner[n];
        map.upper[n] = p->pixelBoxUpperCorner[n];
    }
    remember_map(&map, p->tensorMap, p->globalAddress, p->globalDim, p->globalStrides, p->elementStrides);
}

#if CUDA_VERSION >= 13000
static void im2col_wide(const cuTensorMapEncodeIm2colWide_params *p) {
    struct map map = {.mode = "im2col-wide", .type = p->tensorDataType, .rank = p->tensorRank,
                      .interleave = p->interleave, .swizzle = p->swizzle, .fill = p->oobFill,
                      .channels = p->channelsPerPixel, .pixels = p->pixelsPerColumn, .wide = p->mode};
    map.lower[0] = p->pixelBoxLowerCornerWidth;
    map.upper[0] = p->pixelBoxUpperCornerWidth;
    remember_map(&map, p->tensorMap, p->globalAddress, p->globalDim, p->globalStrides, p->elementStrides);
}
#endif

/* ------------------------------------------------------------------ launches */

/* Whether a kernel of this name was launched before; those after the first MAX_NAMES count as known. */
static bool seen(const char *name) {
    for (size_t n = 0; n < state.name_count; n++)
        if (strcmp(state.names[n], name) == 0)
            return true;
    if (state.name_count == MAX_NAMES)
        return true;
    if ((state.names[state.name_count] = strdup(name)))
        state.name_count++;
    return false;
}

/* Whether this launch is the one to record. */
static bool chosen(const struct launch *launch) {
    if (!seen(launch->name))
        note("kernel %s", launch->name);
    if (state.claimed || fnmatch(config.pattern, launch->name, 0) != 0)
        return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.cuStreamIsCapturing(launch->stream, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE) {
        if (!state.captured++)
            note("graph-kernel %s", launch->name);
        return false;
    }
    return ++state.matches == config.nth;
}

/* The module of the kernel, which the driver would otherwise load during the launch. */
static CUmodule loaded_module(const struct launch *launch) {
    CUfunction function = launch->function;
    CUmodule module = NULL;
    if (launch->is_kernel && driver.cuKernelGetFunction(&function, (CUkernel)launch->function) != CUDA_SUCCESS)
        return NULL;
    if (driver.cuFuncLoad(function) != CUDA_SUCCESS || driver.cuFuncGetModule(&module, function) != CUDA_SUCCESS)
        return NULL;
    return module;
}

/* Whether to record this launch; if so, what is known of it, which no other thread changes from now on. */
static bool claim(struct launch *launch) {
    static struct map maps[MAX_MAPS];
    static struct image image;
    pthread_mutex_lock(&state.lock);
    bool wanted = chosen(launch);
    if (wanted) {
        launch->is_kernel = recall(&state.kernels, launch->function) != NULL;
        launch->module = loaded_module(launch);
        state.claimed = true;
        const struct image *found = image_of_function(launch->function);
        if (found) {
            image = *found;
            launch->image = &image;
        }
        if (state.cubin && contains(state.cubin, state.cubin_size, launch->name, false)) {
            launch->cubin = state.cubin;
            launch->cubin_size = state.cubin_size;
        }
        memcpy(maps, state.maps, sizeof maps);
        launch->maps = maps;
        launch->map_count = state.map_count < MAX_MAPS ? state.map_count : MAX_MAPS;
    }
    pthread_mutex_unlock(&state.lock);
    return wanted;
}

/* Other threads may launch meanwhile: what runs on the GPU may wait for what they launch. */
static void begin_launch(struct launch *launch) {
    if (!claim(launch))
        return;
    note("recording %s", launch->name);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* another thread may be building a graph */
    driver.cuThreadExchangeStreamCaptureMode(&mode);
    is_recording = record_before(launch);
    recording = launch->stream;
    driver.cuThreadExchangeStreamCaptureMode(&mode);
}

static void end_launch(CUresult result) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    is_recording = false;
    driver.cuThreadExchangeStreamCaptureMode(&mode);
    record_after(recording, result);
    driver.cuThreadExchangeStreamCaptureMode(&mode);
}

static void apply(struct launch *launch, const CUlaunchConfig *given) {
    for (unsigned n = 0; n < given->numAttrs; n++) {
        const CUlaunchAttribute *attribute = &given->attrs[n];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            launch->cluster[0] = attribute->value.clusterDim.x;
            launch->cluster[1] = attribute->value.clusterDim.y;
            launch->cluster[2] = attribute->value.clusterDim.z;
        } else if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            launch->cooperative = attribute->value.cooperative != 0;
        } else if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            launch->dependent = attribute->value.programmaticStreamSerializationAllowed != 0;
        }
    }
}

static void launch_kernel(const CUpti_CallbackData *data, bool cooperative, bool own_stream) {
    const cuLaunchKernel_params *p = data->functionParams; /* cooperative launches only lack the last member */
    struct launch launch = {.name = data->symbolName ? data->symbolName : "", .function = p->f, .stream = p->hStream,
                            .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                            .block = {p->blockDimX, p->blockDimY, p->blockDimZ}, .shared = p->sharedMemBytes,
                            .cooperative = cooperative, .parameters = p->kernelParams,
                            .extra = cooperative ? NULL : p->extra};
    if (own_stream && !launch.stream)
        launch.stream = CU_STREAM_PER_THREAD;
    begin_launch(&launch);
}

static void launch_kernel_ex(const CUpti_CallbackData *data, bool own_stream) {
    const cuLaunchKernelEx_params *p = data->functionParams;
    const CUlaunchConfig *given = p->config;
    if (!given)
        return;
    struct launch launch = {.name = data->symbolName ? data->symbolName : "", .function = p->f,
                            .stream = given->hStream, .grid = {given->gridDimX, given->gridDimY, given->gridDimZ},
                            .block = {given->blockDimX, given->blockDimY, given->blockDimZ},
                            .shared = given->sharedMemBytes, .parameters = p->kernelParams, .extra = p->extra};
    apply(&launch, given);
    if (own_stream && !launch.stream)
        launch.stream = CU_STREAM_PER_THREAD;
    begin_launch(&launch);
}

/* ------------------------------------------------------------------ callbacks */

#define EACH(name) CUPTI_DRIVER_TRACE_CBID_##name

static void before(CUpti_CallbackId id, const CUpti_CallbackData *data) {
    switch (id) {
    case EACH(cuLaunchKernel): launch_kernel(data, false, false); break;
    case EACH(cuLaunchKernel_ptsz): launch_kernel(data, false, true); break;
    case EACH(cuLaunchCooperativeKernel): launch_kernel(data, true, false); break;
    case EACH(cuLaunchCooperativeKernel_ptsz): launch_kernel(data, true, true); break;
    case EACH(cuLaunchKernelEx): launch_kernel_ex(data, false); break;
    case EACH(cuLaunchKernelEx_ptsz): launch_kernel_ex(data, true); break;
    case EACH(cuGraphLaunch):
    case EACH(cuGraphLaunch_ptsz):
        pthread_mutex_lock(&state.lock);
        if (!state.graphs++)
            note("graph-launch");
        pthread_mutex_unlock(&state.lock);
        break;
    default: break;
    }
}

/* After a call that succeeded: remember what it made. */
static void remember_call(CUpti_CallbackId id, const void *parameters) {
#define AS(name) ((const name##_params *)parameters)
    switch (id) {
    case EACH(cuTensorMapEncodeTiled): tiled(parameters); break;
    case EACH(cuTensorMapEncodeIm2col): im2col(parameters); break;
#if CUDA_VERSION >= 13000
    case EACH(cuTensorMapEncodeIm2colWide): im2col_wide(parameters); break;
#endif
    case EACH(cuModuleLoad): remember_image(*AS(cuModuleLoad)->module, NULL, AS(cuModuleLoad)->fname); break;
    case EACH(cuModuleLoadData):
        remember_image(*AS(cuModuleLoadData)->module, AS(cuModuleLoadData)->image, NULL);
        break;
    case EACH(cuModuleLoadDataEx):
        remember_image(*AS(cuModuleLoadDataEx)->module, AS(cuModuleLoadDataEx)->image, NULL);
        break;
    case EACH(cuModuleLoadFatBinary):
        remember_image(*AS(cuModuleLoadFatBinary)->module, AS(cuModuleLoadFatBinary)->fatCubin, NULL);
        break;
    case EACH(cuLibraryLoadData):
        remember_image(*AS(cuLibraryLoadData)->library, AS(cuLibraryLoadData)->code, NULL);
        break;
    case EACH(cuLibraryLoadFromFile):
        remember_image(*AS(cuLibraryLoadFromFile)->library, NULL, AS(cuLibraryLoadFromFile)->fileName);
        break;
    case EACH(cuModuleGetFunction):
        remember(&state.functions, *AS(cuModuleGetFunction)->hfunc, AS(cuModuleGetFunction)->hmod);
        break;
    case EACH(cuLibraryGetKernel):
        remember(&state.functions, *AS(cuLibraryGetKernel)->pKernel, AS(cuLibraryGetKernel)->library);
        remember(&state.kernels, *AS(cuLibraryGetKernel)->pKernel, *AS(cuLibraryGetKernel)->pKernel);
        break;
    case EACH(cuLibraryGetModule):
        remember(&state.functions, *AS(cuLibraryGetModule)->pMod, AS(cuLibraryGetModule)->library);
        break;
    case EACH(cuKernelGetFunction):
        if (*AS(cuKernelGetFunction)->pFunc != (CUfunction)AS(cuKernelGetFunction)->kernel)
            remember(&state.functions, *AS(cuKernelGetFunction)->pFunc, AS(cuKernelGetFunction)->kernel);
        break;
    default: break;
    }
#undef AS
}

static void module_loaded(const CUpti_ModuleResourceData *module) {
    if (!module || !module->pCubin || state.claimed ||
        !contains(module->pCubin, module->cubinSize, config.pattern, true))
        return;
    void *copy = malloc(module->cubinSize);
    if (!copy)
        return;
    memcpy(copy, module->pCubin, module->cubinSize);
    free(state.cubin);
    state.cubin = copy;
    state.cubin_size = module->cubinSize;
}

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
    (void)user;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) { /* also of a module that this library makes the driver load */
        pthread_mutex_lock(&state.lock);
        module_loaded(((const CUpti_ResourceData *)data)->resourceDescriptor);
        pthread_mutex_unlock(&state.lock);
    } else if (!inside) {
        inside = true;
        const CUpti_CallbackData *call = data;
        const CUresult *result = call->functionReturnValue;
        if (call->callbackSite == CUPTI_API_ENTER) {
            before(id, call);
        } else if (is_recording) {
            end_launch(result ? *result : CUDA_SUCCESS);
        } else if (result && *result == CUDA_SUCCESS) {
            pthread_mutex_lock(&state.lock);
            remember_call(id, call->functionParams);
            pthread_mutex_unlock(&state.lock);
        }
        inside = false;
    }
}

static const CUpti_CallbackId WATCHED[] = {
    EACH(cuLaunchKernel), EACH(cuLaunchKernel_ptsz), EACH(cuLaunchKernelEx), EACH(cuLaunchKernelEx_ptsz),
    EACH(cuLaunchCooperativeKernel), EACH(cuLaunchCooperativeKernel_ptsz), EACH(cuGraphLaunch),
    EACH(cuGraphLaunch_ptsz), EACH(cuTensorMapEncodeTiled), EACH(cuTensorMapEncodeIm2col),
#if CUDA_VERSION >= 13000
    EACH(cuTensorMapEncodeIm2colWide),
#endif
    EACH(cuModuleLoad), EACH(cuModuleLoadData), EACH(cuModuleLoadDataEx), EACH(cuModuleLoadFatBinary),
    EACH(cuLibraryLoadData), EACH(cuLibraryLoadFromFile), EACH(cuModuleGetFunction), EACH(cuLibraryGetKernel),
    EACH(cuLibraryGetModule), EACH(cuKernelGetFunction),
};

/* ------------------------------------------------------------------ beginning and end */

static bool find_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!library) {
        note("error the driver cannot be loaded: %s", dlerror());
        return false;
    }
#define FIND(name, parameters) \
    if (!(*(void **)&driver.name = dlsym(library, #name))) { \
        note("error the driver has no %s", #name); \
        return false; \
    }
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    return true;
}

static bool find_cupti(void *library) {
#define FIND(name, parameters) \
    if (!(*(void **)&cupti.name = dlsym(library, #name))) { \
        note("error CUPTI has no %s", #name); \
        return false; \
    }
    CUPTI_FUNCTIONS(FIND)
#undef FIND
    return true;
}

static const char *cupti_error(CUptiResult result) {
    const char *text = NULL;
    return cupti.cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text ? text : "an unknown error";
}

/* Subscribe with the first of the libraries *paths*, separated by colons, that this driver accepts. */
static bool subscribe(const char *paths) {
    char all[8192], *rest = NULL;
    snprintf(all, sizeof all, "%s", paths);
    for (char *path = strtok_r(all, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        int loaded = strchr(path, '/') ? 0 : RTLD_NOLOAD; /* a mere name: what the program has loaded */
        void *library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL | loaded);
        if (!library) {
            const char *reason = dlerror();
            if (!loaded)
                note("skipped %s", reason ? reason : path);
            continue;
        }
        if (!find_cupti(library))
            return false;
        CUptiResult result = cupti.cuptiSubscribe(&state.subscriber, called, NULL);
        for (size_t n = 0; result == CUPTI_SUCCESS && n < sizeof WATCHED / sizeof *WATCHED; n++)
            result = cupti.cuptiEnableCallback(1, state.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, WATCHED[n]);
        if (result == CUPTI_SUCCESS)
            result = cupti.cuptiEnableCallback(1, state.subscriber, CUPTI_CB_DOMAIN_RESOURCE,
                                               CUPTI_CBID_RESOURCE_MODULE_LOADED);
        if (result == CUPTI_SUCCESS)
            return state.subscribed = true;
        note("error CUPTI (%s) refuses to report calls of the driver: %s", path, cupti_error(result));
        return false;
    }
    note("error no CUPTI library can be loaded");
    return false;
}

/* Begin to look for the launch. Returns 0, or 1 if something is missing, which the log names. */
EXPORT int tclint_begin(const char *folder, const char *pattern, uint64_t nth, uint64_t limit, double seconds,
                        const char *libraries) {
    char path[4200];
    snprintf(config.folder, sizeof config.folder, "%s/%ld", folder, (long)getpid());
    snprintf(config.pattern, sizeof config.pattern, "%s", pattern);
    config.nth = nth;
    config.limit = limit;
    config.seconds = seconds;
    state.process = getpid();
    state.claimed = false;
    state.matches = state.captured = state.graphs = state.name_count = 0;
    mkdir(config.folder, 0777);
    snprintf(path, sizeof path, "%s/log", config.folder);
    state.log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (state.log < 0)
        return 1;
    if (state.pipe[0] < 0 && pipe2(state.pipe, O_CLOEXEC) != 0) {
        note("error a pipe: %s", strerror(errno));
        return 1;
    }
    if (!find_driver() || (!state.subscribed && !subscribe(libraries)))
        return 1;
    note("ready");
    return 0;
}

/* Record no further launch. */
EXPORT void tclint_end(void) {
    if (getpid() != state.process) /* a copy of the program that fork() made */
        return;
    pthread_mutex_lock(&state.lock);
    state.claimed = true;
    if (state.log >= 0) {
        note("matches %" PRIu64, state.matches);
        close(state.log);
        state.log = -1;
    }
    pthread_mutex_unlock(&state.lock);
}

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* The driver calls this while it initialises itself, once in each process. */
EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void) {
    const char *folder = getenv("TCLINT_CAPTURE_FOLDER");
    if (!folder || !*folder || state.log >= 0)
        return 1;
    tclint_begin(folder, setting("TCLINT_CAPTURE_KERNEL", "*"), strtoull(setting("TCLINT_CAPTURE_NTH", "1"), NULL, 10),
                 strtoull(setting("TCLINT_CAPTURE_LIMIT", "1073741824"), NULL, 10),
                 strtod(setting("TCLINT_CAPTURE_SECONDS", "10"), NULL), setting("TCLINT_CAPTURE_CUPTI", ""));
    atexit(tclint_end);
    return 1;
}
