/* A driver whose GPU is the processor. It loads the injection library and reports its calls as CUPTI does.
 *
 * Kernels are the C functions below, chosen by name. Tests remove functions of the driver with -DWITHOUT_name.
 */

#define _GNU_SOURCE
#include <cupti.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct CUmod_st {
    const char *image;
};
struct CUfunc_st {
    char name[64];
};

static CUpti_CallbackFunc callback;
static char enabled[STUB_CALLBACKS];
static struct {
    CUdeviceptr address;
    size_t size;
} allocations[64];
static size_t allocation_count;
static int hangs, fails, capturing;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc function, void *user) {
    (void)user;
    if (getenv("STUB_SUBSCRIBED"))
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    *subscriber = (CUpti_SubscriberHandle)&callback;
    callback = function;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
    (void)subscriber;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
        enabled[id] = (char)enable;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text) {
    *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    return CUPTI_SUCCESS;
}

static void report(CUpti_CallbackId id, CUpti_ApiCallbackSite site, const void *parameters, CUresult *result,
                   const char *symbol) {
    CUpti_CallbackData data = {.callbackSite = site, .functionParams = parameters, .functionReturnValue = result,
                               .symbolName = symbol};
    if (callback && enabled[id])
        callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

#define CALL(name, symbol, parameters, body) \
    CUresult result = CUDA_SUCCESS; \
    report(CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_API_ENTER, parameters, NULL, symbol); \
    body; \
    report(CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_API_EXIT, parameters, &result, symbol); \
    return result

CUresult cuInit(unsigned flags) {
    (void)flags;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialise)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    return initialise && !initialise() ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    void *hint = (void *)(0x7f5500000000 + ((uintptr_t)allocation_count << 24));
    void *made = mmap(hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *address = (CUdeviceptr)made;
    allocations[allocation_count].address = *address;
    allocations[allocation_count++].size = size;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    for (size_t n = 0; n < allocation_count; n++)
        if (allocations[n].address == address)
            allocations[n].size = 0;
    return CUDA_SUCCESS;
}

#ifndef WITHOUT_cuMemGetAddressRange_v2
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    for (size_t n = 0; n < allocation_count; n++)
        if (address - allocations[n].address < allocations[n].size) {
            *base = allocations[n].address;
            *size = allocations[n].size;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
#endif

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
    memcpy(to, (const void *)from, size);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent *event, unsigned flags) { return (void)flags, *event = (CUevent)1, CUDA_SUCCESS; }
CUresult cuEventDestroy_v2(CUevent event) { return (void)event, CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream stream) { return (void)event, (void)stream, CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }

CUresult cuEventQuery(CUevent event) {
    (void)event;
    return hangs ? CUDA_ERROR_NOT_READY : fails ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name) {
    *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    (void)attribute, (void)address;
    const char *device = getenv("STUB_DEVICE");
    *(int *)value = device ? atoi(device) : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    (void)stream;
    *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

void stub_capturing(int now) { capturing = now; }

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    cuModuleLoadData_params parameters = {module, image};
    CALL(cuModuleLoadData, NULL, &parameters, {
        *module = malloc(sizeof **module);
        (*module)->image = image;
    });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    cuModuleGetFunction_params parameters = {function, module, name};
    CALL(cuModuleGetFunction, NULL, &parameters, {
        *function = calloc(1, sizeof **function);
        strncpy((*function)->name, name, sizeof (*function)->name - 1);
    });
}

/* All kernels have two addresses and a number; `tensor` begins with a map. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    static const size_t plain[][2] = {{0, 8}, {8, 8}, {16, 4}}, tensor[][2] = {{0, 128}, {128, 8}};
    int maps = strcmp(function->name, "tensor") == 0;
    if (index >= (maps ? sizeof tensor / sizeof *tensor : sizeof plain / sizeof *plain))
        return CUDA_ERROR_INVALID_VALUE;
    *offset = maps ? tensor[index][0] : plain[index][0];
    *size = maps ? tensor[index][1] : plain[index][1];
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    return *function = (CUfunction)kernel, CUDA_SUCCESS;
}

/* The module is loaded late. Its cubin is the file STUB_CUBIN. */
CUresult cuFuncLoad(CUfunction function) {
    (void)function;
    const char *path = getenv("STUB_CUBIN");
    FILE *file = path ? fopen(path, "rb") : NULL;
    static char cubin[1 << 16];
    if (!file)
        return CUDA_SUCCESS;
    CUpti_ModuleResourceData module = {1, fread(cubin, 1, sizeof cubin, file), cubin};
    CUpti_ResourceData data = {NULL, &module};
    fclose(file);
    if (callback)
        callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &data);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    static struct CUmod_st only;
    return (void)function, *module = &only, CUDA_SUCCESS;
}

static uint32_t table[4] = {1, 2, 3, 4};

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name) {
    (void)module;
    if (strcmp(name, "table") != 0)
        return CUDA_ERROR_NOT_FOUND;
    *address = (CUdeviceptr)table;
    *size = sizeof table;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

static void run(CUfunction function, void **parameters) {
    if (strcmp(function->name, "tensor") == 0)
        return;
    float *to = *(float **)parameters[0];
    const float *from = *(float **)parameters[1];
    int count = *(int *)parameters[2];
    hangs = strcmp(function->name, "hang") == 0;
    fails = strcmp(function->name, "trap") == 0;
    if (strcmp(function->name, "kill") == 0)
        abort();
    for (int n = 0; n < count && !hangs && !fails; n++)
        to[n] = 2 * from[n];
    if (strcmp(function->name, "free") == 0)
        cuMemFree_v2((CUdeviceptr)from);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **given, void **extra) {
    cuLaunchKernel_params parameters = {f, gx, gy, gz, bx, by, bz, shared, stream, given, extra};
    CALL(cuLaunchKernel, f->name, &parameters, {
        if (!capturing && given)
            run(f, given);
    });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **given, void **extra) {
    cuLaunchKernelEx_params parameters = {config, f, given, extra};
    CALL(cuLaunchKernelEx, f->name, &parameters, run(f, given));
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    struct {
        CUgraphExec graph;
        CUstream stream;
    } parameters = {graph, stream};
    CALL(cuGraphLaunch, NULL, &parameters, );
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    cuTensorMapEncodeTiled_params parameters = {map, type, rank, address, dimensions, strides, box, steps, interleave,
                                                swizzle, promotion, fill};
    CALL(cuTensorMapEncodeTiled, NULL, &parameters, memset(map, 0xa5, sizeof *map));
}
