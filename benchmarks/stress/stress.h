// What the cases of this folder share: PTX as functions, and a judge that launches a kernel while the GPU is busy.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t error = (call);                                                   \
        if (error != cudaSuccess) {                                                   \
            printf("{\"error\": \"%s\", \"call\": \"%s\"}\n", cudaGetErrorName(error), #call); \
            exit(3);                                                                  \
        }                                                                             \
    } while (0)

// The same on both sides: the expected values are computed on the host.
__host__ __device__ inline uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}
__host__ __device__ inline uint32_t datum(uint32_t block, uint32_t round, uint32_t index) {
    return mix(block * 40503u + round * 97u + index * 2654435761u);
}

__device__ inline void spin(int cycles) {
    for (long long start = clock64(); clock64() - start < cycles;) {
    }
}
__device__ inline uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ inline void mbarrier_init(uint64_t* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(bar)), "r"(count) : "memory");
}
__device__ inline void mbarrier_arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(bar)) : "memory");
}
__device__ inline void mbarrier_wait(uint64_t* bar, int parity) {
    asm volatile(
        "{\n.reg .pred p;\nagain_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again_%=;\n}" ::"r"(
            shared(bar)),
        "r"(parity)
        : "memory");
}
__device__ inline void publish_mbarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline bool elected() {
    uint32_t chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen;
}

__device__ inline void copy_16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(to)), "l"(__cvta_generic_to_global(from))
                 : "memory");
}
__device__ inline void await_copies() { asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); }
__device__ inline void bulk_store(void* to, const void* from, int bytes) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(
            __cvta_generic_to_global(to)),
        "r"(shared(from)), "r"(bytes)
        : "memory");
}
__device__ inline void store_matrices(void* row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared(row)), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

// The sum, weighted by position, of the accumulators of a product of two 64 x 64 tiles of core matrices without swizzle.
__device__ inline float product(const void* a, const void* b) {
    float c[32] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; k++) {
        auto descriptor = [&](const void* tile) {
            return (uint64_t)((shared(tile) + k * 2048 & 0x3ffff) >> 4) | 64ull << 16 | 8ull << 32;
        };
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
            "%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),
              "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),
              "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),
              "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
            : "l"(descriptor(a)), "l"(descriptor(b)));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += c[i] * (i + 1);
    return sum;
}

// Foreign data in all shared memory of the GPU, so that what is read too early is not what the last launch left there.
__global__ void litter(uint32_t seed) {
    extern __shared__ uint32_t words[];
    for (int i = threadIdx.x; i < 56000; i += blockDim.x) words[i] = mix(seed + i);
    __syncthreads();
    if (words[(seed + 7) % 56000] == 12345) printf(" ");
}
// Random traffic to global memory and the second-level cache.
__global__ void hammer(uint32_t* words, int size, int rounds) {
    uint32_t state = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; round++) {
        state = mix(state + round);
        words[state % size] = state;
        if (round % 16 == 0) atomicAdd(words + (state >> 7) % size, 1);
    }
}

// Launches a kernel and compares its output, word by word; with LOAD set, on a GPU that litter and hammer keep busy.
template <class Launch>
int judge(const char* name, Launch launch, uint32_t* output, const std::vector<uint32_t>& expected, int launches) {
    constexpr int words = 32 << 20;
    const bool load = getenv("LOAD") != nullptr;
    std::vector<uint32_t> got(expected.size());
    uint32_t* scratch;
    cudaStream_t side;
    long wrong = 0;
    CHECK(cudaMalloc(&scratch, words * 4ull));
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    CHECK(cudaFuncSetAttribute(litter, cudaFuncAttributeMaxDynamicSharedMemorySize, 224000));
    for (int i = 0; i < launches; i++) {
        CHECK(cudaMemset(output, 0xee, expected.size() * 4));
        if (load) {
            litter<<<132, 256, 224000>>>(i * 77u);
            CHECK(cudaDeviceSynchronize());
            hammer<<<264, 128, 0, side>>>(scratch, words, 400);
        }
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(got.data(), output, got.size() * 4, cudaMemcpyDeviceToHost));
        wrong += got != expected;
    }
    printf("{\"case\": \"%s\", \"load\": %s, \"launches\": %d, \"wrong\": %ld}\n", name, load ? "true" : "false", launches,
           wrong);
    return 0;
}
