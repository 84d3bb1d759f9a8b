/* What the two halves of the injection library share: the functions that are resolved, and what is recorded. */

#ifndef TCLINT_CAPTURE_H
#define TCLINT_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cuda.h>

/* Functions of the driver, which are looked up by name because the program decides which driver it loads. */
#define DRIVER_FUNCTIONS(F) \
    F(cuCtxGetDevice, (CUdevice *)) \
    F(cuCtxSynchronize, (void)) \
    F(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice)) \
    F(cuDriverGetVersion, (int *)) \
    F(cuEventCreate, (CUevent *, unsigned int)) \
    F(cuEventDestroy_v2, (CUevent)) \
    F(cuEventQuery, (CUevent)) \
    F(cuEventRecord, (CUevent, CUstream)) \
    F(cuFuncGetModule, (CUmodule *, CUfunction)) \
    F(cuFuncGetParamInfo, (CUfunction, size_t, size_t *, size_t *)) \
    F(cuFuncLoad, (CUfunction)) \
    F(cuGetErrorName, (CUresult, const char **)) \
    F(cuKernelGetFunction, (CUfunction *, CUkernel)) \
    F(cuKernelGetParamInfo, (CUkernel, size_t, size_t *, size_t *)) \
    F(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr)) \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
    F(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *)) \
    F(cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr)) \
    F(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *)) \
    F(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))

struct driver {
#define MEMBER(name, parameters) CUresult(*name) parameters;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct driver driver;

struct config {
    char folder[4096]; /* where this process writes */
    char pattern[4096]; /* glob of kernel names */
    uint64_t nth;
    uint64_t limit; /* bytes of all buffers */
    double seconds; /* how long the launch may take before it counts as hanging */
};

extern struct config config;

/* The arguments of one cuTensorMapEncode*, by the 128 bytes that it made. */
struct map {
    unsigned char bytes[128];
    const char *mode; /* "tile", "im2col" or "im2col-wide" */
    uint64_t address, dimensions[5], strides[4];
    uint32_t type, rank, box[5], element_strides[5], channels, pixels, interleave, swizzle, fill;
    int32_t lower[3], upper[3], wide;
};

/* A module or library that the program loaded. */
struct image {
    const void *handle; /* CUmodule or CUlibrary */
    const void *data; /* a copy, or in a mapped file, and then only read through the kernel */
    size_t size;
    char *path; /* the file that the driver loaded it from */
};

/* What the callbacks know about a launch when it begins. */
struct launch {
    const char *name;
    CUfunction function;
    bool is_kernel; /* function is a CUkernel */
    CUstream stream;
    unsigned grid[3], block[3], cluster[3], shared;
    bool cooperative, dependent;
    void **parameters, **extra;
    CUmodule module; /* NULL if it is not known */
    const struct image *image; /* NULL if it is not known */
    const void *cubin;
    size_t cubin_size;
    const struct map *maps;
    size_t map_count;
};

/* Append a line to the log of this process, for the command that reports. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Copy bytes that may not be readable: false instead of a signal. */
bool read_safely(void *to, const void *from, size_t size);

/* Call *act* with the name of each section of an ELF file, or of each variable, that is within its bounds. */
void each_section(const void *elf, size_t size, void (*act)(void *, const char *), void *user);
void each_variable(const void *elf, size_t size, void (*act)(void *, const char *), void *user);

/* Record the state before the launch: false, after a note, if nothing is to be recorded. */
bool record_before(const struct launch *launch);

/* Record the state after the launch, whose call returned *result*, and complete the folder. */
void record_after(CUstream stream, CUresult result);

#endif
