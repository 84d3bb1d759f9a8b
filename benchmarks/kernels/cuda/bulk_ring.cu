// A warp that fills a ring with bulk copies, and warps that work on it: full and empty barriers.
#include "ptx.cuh"

constexpr int STAGES = 4, TILE = 1024, WORKERS = 128;

extern "C" __global__ void __launch_bounds__(WORKERS + 32) bulk_ring(const float *x, float *y, int tiles) {
    __shared__ alignas(128) float ring[STAGES][TILE];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    x += (size_t)blockIdx.x * tiles * TILE;
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], WORKERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= WORKERS) {
        if (elect_one())
            for (int i = 0; i < tiles; ++i) {
                const int s = i % STAGES;
                mbarrier_wait(&empty[s], (i / STAGES & 1) ^ 1);
                mbarrier_arrive_expect_tx(&full[s], TILE * sizeof(float));
                bulk_load(ring[s], x + (size_t)i * TILE, TILE * sizeof(float), &full[s]);
            }
    } else {
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            const int s = i % STAGES;
            mbarrier_wait(&full[s], i / STAGES & 1);
            for (int j = t; j < TILE; j += WORKERS) sum += ring[s][j];
            mbarrier_arrive(&empty[s]);
        }
        atomicAdd(y + blockIdx.x, sum);
    }
}

// Work in shared memory, then a bulk store of it, two buffers in turn.
extern "C" __global__ void __launch_bounds__(256) bulk_out(const float *x, float *y, int tiles) {
    __shared__ alignas(128) float out[2][TILE];
    const int t = threadIdx.x;
    const bool issues = __shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one();
    const size_t base = (size_t)blockIdx.x * tiles * TILE;
    for (int i = 0; i < tiles; ++i) {
        if (issues) bulk_wait_read<1>();
        __syncthreads();
        for (int j = t; j < TILE; j += 256) out[i % 2][j] = x[base + i * TILE + j] * 2.0f;
        fence_proxy_async();
        __syncthreads();
        if (issues) {
            bulk_store(y + base + i * TILE, out[i % 2], TILE * sizeof(float));
            bulk_commit();
        }
    }
    if (issues) bulk_wait<0>();
}

// The sums of all blocks, added up in global memory by the copies.
extern "C" __global__ void __launch_bounds__(256) bulk_add(const float *x, float *y, int rows) {
    __shared__ alignas(128) float part[TILE];
    const int t = threadIdx.x;
    for (int j = t; j < TILE; j += 256) {
        float sum = 0;
        for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += x[(size_t)r * TILE + j];
        part[j] = sum;
    }
    fence_proxy_async();
    __syncthreads();
    if (__shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one()) {
        bulk_add_f32(y, part, TILE * sizeof(float));
        bulk_commit();
        bulk_wait_read<0>();
    }
}
