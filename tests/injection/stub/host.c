/* A program that launches kernels: `host PTX KERNEL...`, where `+` before a name launches it into a graph. */

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stub_capturing(int now);

enum { COUNT = 64 };

static char *contents(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !fread(text, 1, (1 << 20) - 1, file))
        exit(3);
    fclose(file);
    return text;
}

static CUtensorMap map_of(CUdeviceptr address) {
    CUtensorMap map;
    const cuuint64_t dimensions[] = {16, 4}, strides[] = {64};
    const cuuint32_t box[] = {8, 2}, steps[] = {1, 1};
    cuTensorMapEncodeTiled(&map, (CUtensorMapDataType)7, 2, (void *)address, dimensions, strides, box, steps,
                           (CUtensorMapInterleave)0, (CUtensorMapSwizzle)1, (CUtensorMapL2promotion)0,
                           (CUtensorMapFloatOOBfill)0);
    return map;
}

static void launch_tensor(CUfunction function, CUdeviceptr address) {
    CUtensorMap map = map_of(address);
    CUlaunchAttribute cluster = {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, {.clusterDim = {2, 1, 1}}};
    CUlaunchConfig config = {4, 1, 1, 64, 1, 1, 1024, NULL, &cluster, 1};
    CUdeviceptr none = 0;
    void *parameters[] = {&map, &none};
    cuLaunchKernelEx(&config, function, parameters, NULL);
}

/* The map is in an allocation to which only a structure in memory points. */
static void launch_held(CUfunction function, CUdeviceptr structure, CUdeviceptr address) {
    CUtensorMap map = map_of(address);
    CUdeviceptr holder, none = 0;
    int count = 0;
    cuMemAlloc_v2(&holder, 512);
    memcpy((char *)holder + 128, &map, sizeof map);
    *(CUdeviceptr *)(structure + 8) = holder;
    void *parameters[] = {&structure, &none, &count};
    cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL);
}

int main(int argc, char **argv) {
    CUdeviceptr to, from;
    CUmodule module;
    int count = COUNT;
    if (argc < 2 || cuInit(0) != CUDA_SUCCESS)
        return 3;
    char *text = contents(argv[1]);
    cuModuleLoadData(&module, text);
    memset(text, 0, strlen(text)); /* the driver has no further need of it */
    free(text);
    cuMemAlloc_v2(&to, 4096);
    cuMemAlloc_v2(&from, COUNT * sizeof(float));
    for (int n = 0; n < COUNT; n++)
        ((float *)from)[n] = (float)n;
    for (int n = 2; n < argc; n++) {
        CUfunction function;
        int graph = argv[n][0] == '+';
        cuModuleGetFunction(&function, module, argv[n] + graph);
        stub_capturing(graph);
        void *parameters[] = {&to, &from, &count};
        if (strcmp(argv[n], "tensor") == 0)
            launch_tensor(function, from);
        else if (strcmp(argv[n], "held") == 0)
            launch_held(function, to, from);
        else if (strcmp(argv[n], "wild") == 0)
            cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, (void **)64, NULL);
        else
            cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL);
        stub_capturing(0);
        if (graph)
            cuGraphLaunch(NULL, NULL);
    }
    return 0;
}
