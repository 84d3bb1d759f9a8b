// Streams through shared memory: cp.async in rings of different depths.
#include "ptx.cuh"

template <int STAGES> __device__ void scale(const float4 *x, float4 *y, float factor, int tiles) {
    __shared__ float4 ring[STAGES][128];
    const int t = threadIdx.x;
    x += (size_t)blockIdx.x * tiles * 128;
    y += (size_t)blockIdx.x * tiles * 128;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) cp_async_16(shared_address(&ring[s][t]), x + s * 128 + t);
        cp_async_commit();
    }
    for (int i = 0; i < tiles; ++i) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        const int ahead = i + STAGES - 1;
        if (ahead < tiles) cp_async_16(shared_address(&ring[ahead % STAGES][t]), x + ahead * 128 + t);
        cp_async_commit();
        float4 v = ring[i % STAGES][t ^ 1];  // what a neighbour copied
        y[i * 128 + (t ^ 1)] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
    }
}

extern "C" __global__ void __launch_bounds__(128) scale_2(const float4 *x, float4 *y, float factor, int tiles) {
    scale<2>(x, y, factor, tiles);
}
extern "C" __global__ void __launch_bounds__(128) scale_4(const float4 *x, float4 *y, float factor, int tiles) {
    scale<4>(x, y, factor, tiles);
}
