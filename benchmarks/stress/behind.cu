// Does it complete a wgmma to issue later ones? nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a behind.cu
//
// A warpgroup multiplies by a tile of ones, then LATER times by other ones, and without a wait one thread refills the tile with
// twos by a bulk copy. A sum that is not the number of ones was read too late. Other warpgroups of the CTA, and a second CTA on
// each SM, keep the tensor cores busy.
#include <cstdio>
#include <cuda_fp16.h>

constexpr int tile = 8192, fragment = 2048, rounds = 2000;

__device__ unsigned shared_address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// No swizzle. All values of a matrix are equal, so its layout does not matter as long as it lies within the tile.
__device__ unsigned long long descriptor(unsigned at) { return (at >> 4 & 0x3fffull) | 8ull << 16 | 16ull << 32; }

__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile("{wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
                   "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
                   "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
                   "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b));
}
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

template <int LATER> __global__ void behind(const uint4 *twos, unsigned *wrong) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ __align__(8) unsigned long long full;
    const int thread = threadIdx.x % 128;
    half2 *ones = reinterpret_cast<half2 *>(memory), *slot = ones + (tile + fragment) / 4;
    for (int i = threadIdx.x; i < (tile + fragment) / 2; i += blockDim.x) ones[i] = __floats2half2_rn(1, 1);
    const unsigned at = shared_address(ones), ring = shared_address(slot), barrier = shared_address(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long a = descriptor(at + tile);
    float d[32] = {};
    if (threadIdx.x >= 128) {
        for (int round = 0; round < 3 * rounds; round++) {
            fence();
            for (int k = 0; k < 32; k++) multiply(d, a, descriptor(at));
            commit();
            wait();
        }
        if (d[0] < 0) wrong[1] = 1;
        return;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = thread; i < (tile + fragment) / 4; i += 128) slot[i] = __floats2half2_rn(1, 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        for (float &each : d) each = 0;
        fence();
        for (int k = 0; k < 4; k++) multiply(d, a, descriptor(ring + 16 * k));
        commit();
#pragma unroll
        for (int k = 0; k < LATER; k++) multiply(d, a, descriptor(at + 16 * k));
        if (LATER) commit();
        if (thread == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(barrier) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];" ::"r"(ring),
                         "l"(twos), "r"(barrier)
                         : "memory");
        }
        wait();
        unsigned done;
        do
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                         : "=r"(done)
                         : "r"(barrier), "r"(round & 1)
                         : "memory");
        while (!done);
        bool late = false;
        for (float each : d) late |= each != 16.0f * (4 + LATER);
        if (__any_sync(~0u, late) && thread % 32 == 0) atomicAdd(wrong, 1);
        asm volatile("bar.sync 1, 128;" ::: "memory");
    }
}

template <int LATER> void measure(const uint4 *twos, int busy, int blocks) {
    unsigned *wrong, found;
    cudaMalloc(&wrong, 8);
    cudaMemset(wrong, 0, 8);
    behind<LATER><<<blocks, 128 * (1 + busy), 2 * (tile + fragment)>>>(twos, wrong);
    cudaMemcpy(&found, wrong, 4, cudaMemcpyDeviceToHost);
    printf("{\"later\": %d, \"busy warpgroups\": %d, \"CTAs\": %d, \"wrong warps\": %u, \"of\": %d, \"error\": \"%s\"}\n", LATER, busy,
           blocks, found, 4 * rounds * blocks, cudaGetErrorString(cudaGetLastError()));
    fflush(stdout);
    cudaFree(wrong);
}

int main() {
    half host[2048];
    uint4 *twos;
    for (half &each : host) each = __float2half(2);
    cudaMalloc(&twos, sizeof host);
    cudaMemcpy(twos, host, sizeof host, cudaMemcpyHostToDevice);
    for (int busy = 0; busy < 4; busy++)
        for (int blocks : {132, 264}) {
            measure<0>(twos, busy, blocks);
            measure<1>(twos, busy, blocks);
            measure<2>(twos, busy, blocks);
            measure<4>(twos, busy, blocks);
            measure<8>(twos, busy, blocks);
        }
}
