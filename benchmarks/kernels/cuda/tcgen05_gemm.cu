// C = A B^T with tcgen05: a warp that loads by TMA, a warp that multiplies, four that read tensor memory.
#include "ptx.cuh"

constexpr int STAGES = 4, M = 128, N = 128, K = 64;
constexpr uint32_t BYTES = (M + N) * K * 2;

struct Shared {
    alignas(1024) uint16_t a[STAGES][M * K];
    alignas(1024) uint16_t b[STAGES][N * K];
    uint64_t full[STAGES], empty[STAGES], done;
    uint32_t tmem;
};

template <int KIND>
__device__ __forceinline__ void gemm(const TensorMap &a, const TensorMap &b, float *c, int n, int k) {
    extern __shared__ __align__(1024) uint8_t raw[];
    Shared &s = *reinterpret_cast<Shared *>(raw);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int row = blockIdx.y * M, column = blockIdx.x * N, steps = k / K;
    if (warp == 0) {
        tcgen05_alloc(&s.tmem, N);
        tcgen05_relinquish();
    } else if (warp == 1 && elect_one()) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(&s.full[i], 1);
            mbarrier_init(&s.empty[i], 1);
        }
        mbarrier_init(&s.done, 1);
        fence_mbarrier_init();
    }
    __syncwarp();
    tcgen05_fence_before();
    __syncthreads();
    tcgen05_fence_after();
    const uint32_t tmem = s.tmem;
    if (warp == 4) {
        if (elect_one())
            for (int i = 0; i < steps; ++i) {
                const int slot = i % STAGES;
                mbarrier_wait(&s.empty[slot], (i / STAGES & 1) ^ 1);
                mbarrier_arrive_expect_tx(&s.full[slot], BYTES);
                tensor_load_2d(s.a[slot], &a, i * K, row, &s.full[slot]);
                tensor_load_2d(s.b[slot], &b, i * K, column, &s.full[slot]);
            }
    } else if (warp == 5) {
        if (elect_one()) {
            for (int i = 0; i < steps; ++i) {
                const int slot = i % STAGES;
                mbarrier_wait(&s.full[slot], i / STAGES & 1);
                tcgen05_fence_after();
#pragma unroll
                for (int kk = 0; kk < K; kk += 16)
                    tcgen05_mma_f16(tmem, tcgen05_descriptor(shared_address(s.a[slot] + kk)),
                                    tcgen05_descriptor(shared_address(s.b[slot] + kk)),
                                    tcgen05_instruction(KIND, M, N), i | kk);
                tcgen05_commit(&s.empty[slot]);
            }
            tcgen05_commit(&s.done);
        }
    } else {
        mbarrier_wait(&s.done, 0);
        tcgen05_fence_after();
        float *to = c + (size_t)(row + warp * 32 + lane) * n + column;
        for (int j = 0; j < N; j += 8) {
            uint32_t r[8];
            tcgen05_ld_x8(r, tmem + (warp * 32 << 16) + j);
            tcgen05_wait_ld();
#pragma unroll
            for (int i = 0; i < 8; i += 4)
                *reinterpret_cast<float4 *>(to + j + i) =
                    make_float4(__uint_as_float(r[i]), __uint_as_float(r[i + 1]), __uint_as_float(r[i + 2]),
                                __uint_as_float(r[i + 3]));
        }
        tcgen05_fence_before();
    }
    __syncthreads();
    if (warp == 0) {
        tcgen05_fence_after();
        tcgen05_dealloc(tmem, N);
    }
}

extern "C" __global__ void __launch_bounds__(192)
tcgen05_gemm_f16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int n, int k) {
    gemm<0>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(192)
tcgen05_gemm_bf16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *c, int n, int k) {
    gemm<1>(a, b, c, n, k);
}
