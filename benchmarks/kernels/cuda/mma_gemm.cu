// C = A B with mma.sync: 64 x 64 tiles, four warps of 32 x 32, tiles of K = 32 by cp.async.
#include <cuda_fp16.h>
#include "ptx.cuh"

constexpr int STAGES = 3, TILE = 64, DEPTH = 32;
constexpr int A_ROW = DEPTH + 8, B_ROW = TILE + 8;  // padded, so that ldmatrix meets no bank twice

extern "C" __global__ void __launch_bounds__(128)
mma_gemm(const __half *a, const __half *b, float *c, int n, int k) {
    __shared__ alignas(16) __half as[STAGES][TILE][A_ROW];
    __shared__ alignas(16) __half bs[STAGES][DEPTH][B_ROW];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const int steps = k / DEPTH;

    auto load = [&](int step) {
        const int s = step % STAGES;
        for (int i = t; i < TILE * DEPTH / 8; i += 128)
            cp_async_16(shared_address(&as[s][i / 4][i % 4 * 8]),
                        a + (size_t)(row + i / 4) * k + step * DEPTH + i % 4 * 8);
        for (int i = t; i < TILE * DEPTH / 8; i += 128)
            cp_async_16(shared_address(&bs[s][i / 8][i % 8 * 8]),
                        b + (size_t)(step * DEPTH + i / 8) * n + column + i % 8 * 8);
    };
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) load(s);
        cp_async_commit();
    }
    float sums[2][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        if (step + STAGES - 1 < steps) load(step + STAGES - 1);
        cp_async_commit();
        const int s = step % STAGES;
#pragma unroll
        for (int kk = 0; kk < DEPTH; kk += 16) {
            uint32_t left[2][4], right[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                ldmatrix_x4(left[i], shared_address(&as[s][warp / 2 * 32 + i * 16 + lane % 16][kk + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 4; ++j)
                ldmatrix_x2_trans(right[j], shared_address(&bs[s][kk + lane % 16][warp % 2 * 32 + j * 8]));
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) mma_m16n8k16(sums[i][j], left[i], right[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float *to = c + (size_t)(row + warp / 2 * 32 + i * 16 + lane / 4) * n + column + warp % 2 * 32 + j * 8 +
                        lane % 4 * 2;
            *reinterpret_cast<float2 *>(to) = make_float2(sums[i][j][0], sums[i][j][1]);
            *reinterpret_cast<float2 *>(to + 8 * n) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}
