// C = A B^T with wgmma: a warpgroup that loads by TMA, another that multiplies 64 x 64 tiles.
#include "ptx.cuh"

constexpr int STAGES = 4, M = 64, N = 64, K = 64;
constexpr uint32_t BYTES = (M + N) * K * 2;

struct Shared {
    alignas(1024) uint16_t a[STAGES][M * K];
    alignas(1024) uint16_t b[STAGES][N * K];
    uint64_t full[STAGES], empty[STAGES];
};

extern "C" __global__ void __launch_bounds__(256, 1)
wgmma_roles(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int n, int k) {
    extern __shared__ __align__(1024) uint8_t raw[];
    Shared &s = *reinterpret_cast<Shared *>(raw);
    const int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), t = threadIdx.x % 128;
    const int row = blockIdx.y * M, column = blockIdx.x * N, steps = k / K;
    if (threadIdx.x == 0) {
        prefetch_tensor_map(&a);
        prefetch_tensor_map(&b);
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);
            mbarrier_init(&s.empty[i], 128);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (group == 0) {
        setmaxnreg_dec<40>();
        if (t == 0)
            for (int i = 0; i < steps; ++i) {
                const int slot = i % STAGES;
                mbarrier_wait(&s.empty[slot], (i / STAGES & 1) ^ 1);
                mbarrier_arrive_expect_tx(&s.full[slot], BYTES);
                tensor_load_2d(s.a[slot], &a, i * K, row, &s.full[slot]);
                tensor_load_2d(s.b[slot], &b, i * K, column, &s.full[slot]);
            }
    } else {
        setmaxnreg_inc<232>();
        float d[32];
        for (int i = 0; i < steps; ++i) {
            const int slot = i % STAGES;
            mbarrier_wait(&s.full[slot], i / STAGES & 1);
            wgmma_fence();
#pragma unroll
            for (int kk = 0; kk < K; kk += 16)
                wgmma_m64n64k16(d, wgmma_descriptor(shared_address(s.a[slot] + kk)),
                                wgmma_descriptor(shared_address(s.b[slot] + kk)), i | kk);
            wgmma_commit();
            wgmma_wait<0>(d);
            mbarrier_arrive(&s.empty[slot]);
        }
        const int warp = t / 32, lane = t % 32;
        float *to = c + (size_t)(row + warp * 16 + lane / 4) * n + column + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j * 4], d[j * 4 + 1]);
            *reinterpret_cast<float2 *>(to + 8 * n + j * 8) = make_float2(d[j * 4 + 2], d[j * 4 + 3]);
        }
    }
}

// One warpgroup for all; the next tile is on its way while this one is multiplied.
extern "C" __global__ void __launch_bounds__(128)
wgmma_pipelined(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int n, int k) {
    extern __shared__ __align__(1024) uint8_t raw[];
    Shared &s = *reinterpret_cast<Shared *>(raw);
    const int t = threadIdx.x;
    const int row = blockIdx.y * M, column = blockIdx.x * N, steps = k / K;
    if (t == 0) {
        for (int i = 0; i < STAGES; ++i) mbarrier_init(&s.full[i], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    auto load = [&](int i) {
        const int slot = i % STAGES;
        mbarrier_arrive_expect_tx(&s.full[slot], BYTES);
        tensor_load_2d(s.a[slot], &a, i * K, row, &s.full[slot]);
        tensor_load_2d(s.b[slot], &b, i * K, column, &s.full[slot]);
    };
    if (t == 0)
        for (int i = 0; i < STAGES - 1 && i < steps; ++i) load(i);
    float d[32];
    for (int i = 0; i < steps; ++i) {
        const int slot = i % STAGES;
        mbarrier_wait(&s.full[slot], i / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < K; kk += 16)
            wgmma_m64n64k16(d, wgmma_descriptor(shared_address(s.a[slot] + kk)),
                            wgmma_descriptor(shared_address(s.b[slot] + kk)), i | kk);
        wgmma_commit();
        wgmma_wait<0>(d);
        __syncthreads();  // all four warps have read the tile
        if (t == 0 && i + STAGES - 1 < steps) load(i + STAGES - 1);
    }
    const int warp = t / 32, lane = t % 32;
    float *to = c + (size_t)(row + warp * 16 + lane / 4) * n + column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j * 4], d[j * 4 + 1]);
        *reinterpret_cast<float2 *>(to + 8 * n + j * 8) = make_float2(d[j * 4 + 2], d[j * 4 + 3]);
    }
}
