/* As much of CUPTI's callback interface as the injection library uses. */

#ifndef STUB_CUPTI_H
#define STUB_CUPTI_H

#include <cuda.h>

#define CUPTIAPI

typedef enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39 } CUptiResult;
typedef enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RESOURCE = 3 } CUpti_CallbackDomain;
typedef enum { CUPTI_API_ENTER, CUPTI_API_EXIT } CUpti_ApiCallbackSite;
typedef uint32_t CUpti_CallbackId;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
enum { CUPTI_CBID_RESOURCE_MODULE_LOADED = 4 };

typedef struct {
    CUpti_ApiCallbackSite callbackSite;
    const char *functionName;
    const void *functionParams;
    void *functionReturnValue;
    const char *symbolName;
    CUcontext context;
} CUpti_CallbackData;
typedef struct {
    CUcontext context;
    void *resourceDescriptor;
} CUpti_ResourceData;
typedef struct {
    uint32_t moduleId;
    size_t cubinSize;
    const char *pCubin;
} CUpti_ModuleResourceData;
typedef void (*CUpti_CallbackFunc)(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *user);
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id);
CUptiResult cuptiGetResultString(CUptiResult result, const char **text);

enum {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel = 1,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeTiled,
    CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeIm2col,
    CUPTI_DRIVER_TRACE_CBID_cuTensorMapEncodeIm2colWide,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoad,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile,
    CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule,
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction,
    STUB_CALLBACKS
};

typedef struct {
    CUfunction f;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void **kernelParams, **extra;
} cuLaunchKernel_params;
typedef struct {
    const CUlaunchConfig *config;
    CUfunction f;
    void **kernelParams, **extra;
} cuLaunchKernelEx_params;
typedef struct {
    CUtensorMap *tensorMap;
    CUtensorMapDataType tensorDataType;
    cuuint32_t tensorRank;
    void *globalAddress;
    const cuuint64_t *globalDim, *globalStrides;
    const cuuint32_t *boxDim, *elementStrides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2Promotion;
    CUtensorMapFloatOOBfill oobFill;
} cuTensorMapEncodeTiled_params;
typedef struct {
    CUtensorMap *tensorMap;
    CUtensorMapDataType tensorDataType;
    cuuint32_t tensorRank;
    void *globalAddress;
    const cuuint64_t *globalDim, *globalStrides;
    const int *pixelBoxLowerCorner, *pixelBoxUpperCorner;
    cuuint32_t channelsPerPixel, pixelsPerColumn;
    const cuuint32_t *elementStrides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2Promotion;
    CUtensorMapFloatOOBfill oobFill;
} cuTensorMapEncodeIm2col_params;
typedef struct {
    CUtensorMap *tensorMap;
    CUtensorMapDataType tensorDataType;
    cuuint32_t tensorRank;
    void *globalAddress;
    const cuuint64_t *globalDim, *globalStrides;
    int pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth;
    cuuint32_t channelsPerPixel, pixelsPerColumn;
    const cuuint32_t *elementStrides;
    CUtensorMapInterleave interleave;
    CUtensorMapIm2ColWideMode mode;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion l2Promotion;
    CUtensorMapFloatOOBfill oobFill;
} cuTensorMapEncodeIm2colWide_params;
typedef struct {
    CUmodule *module;
    const char *fname;
} cuModuleLoad_params;
typedef struct {
    CUmodule *module;
    const void *image;
} cuModuleLoadData_params, cuModuleLoadDataEx_params;
typedef struct {
    CUmodule *module;
    const void *fatCubin;
} cuModuleLoadFatBinary_params;
typedef struct {
    CUlibrary *library;
    const void *code;
} cuLibraryLoadData_params;
typedef struct {
    CUlibrary *library;
    const char *fileName;
} cuLibraryLoadFromFile_params;
typedef struct {
    CUfunction *hfunc;
    CUmodule hmod;
    const char *name;
} cuModuleGetFunction_params;
typedef struct {
    CUkernel *pKernel;
    CUlibrary library;
    const char *name;
} cuLibraryGetKernel_params;
typedef struct {
    CUmodule *pMod;
    CUlibrary library;
} cuLibraryGetModule_params;
typedef struct {
    CUfunction *pFunc;
    CUkernel kernel;
} cuKernelGetFunction_params;

#endif
