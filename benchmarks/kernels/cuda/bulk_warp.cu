// A warp that stores in bulk without ever branching on who waits: all lanes wait, one of them has something to wait for.
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(32) bulk_warp(const unsigned *x, uint4 *y, int rounds) {
    constexpr int ROWS = 16;
    __shared__ alignas(128) uint4 out[ROWS][32];
    const int lane = threadIdx.x;
    const bool issues = elect_one();
    unsigned v = x[blockIdx.x * 32 + lane];
    y += (size_t)blockIdx.x * rounds * ROWS * 32;
    for (int r = 0; r < rounds; ++r) {
        bulk_wait_read<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < ROWS; ++i) out[i][lane] = make_uint4(v, v + i, v ^ i, v * i);
        v *= 3;
        fence_proxy_async();
        __syncwarp();
        if (issues) {
            bulk_store(y + r * ROWS * 32, out, sizeof(out));
            bulk_commit();
        }
    }
    bulk_wait<0>();
}
