// What some programmers write twice to be safe. The second time changes nothing.
#include "ptx.cuh"

extern "C" __global__ void __launch_bounds__(128) wgmma_twice(const uint4 *a, const uint4 *b, float *c) {
    constexpr int TILE = 64 * 64 * 2;
    __shared__ alignas(1024) uint8_t tiles[2][TILE];
    const int t = threadIdx.x, lane = t % 32;
    a += (size_t)blockIdx.x * TILE / 16;
    b += (size_t)blockIdx.x * TILE / 16;
    for (int i = t; i < TILE / 16; i += 128) {
        const int at = i / 8 * 128 + (i % 8 ^ i / 8 % 8) * 16;  // swizzled by 128 bytes
        *reinterpret_cast<uint4 *>(tiles[0] + at) = a[i];
        *reinterpret_cast<uint4 *>(tiles[1] + at) = b[i];
    }
    fence_proxy_async();
    fence_proxy_async();
    __syncthreads();
    float d[32];
    wgmma_fence();
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 64; kk += 16)
        wgmma_m64n64k16(d, wgmma_descriptor(shared_address(tiles[0]) + kk * 2),
                        wgmma_descriptor(shared_address(tiles[1]) + kk * 2), kk);
    wgmma_commit();
    wgmma_wait<0>(d);
    wgmma_commit();
    wgmma_wait<0>(d);
    wgmma_fence();
    wgmma_commit();
    wgmma_wait<1>(d);
    wgmma_wait<0>(d);
    float *to = c + (size_t)blockIdx.x * 64 * 64 + (t / 32 * 16 + lane / 4) * 64 + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j * 4], d[j * 4 + 1]);
        *reinterpret_cast<float2 *>(to + 8 * 64 + j * 8) = make_float2(d[j * 4 + 2], d[j * 4 + 3]);
    }
}

// Copies in and out, the groups of which are closed and awaited more often than there are copies.
extern "C" __global__ void __launch_bounds__(128) copy_twice(const float4 *x, float4 *y) {
    __shared__ alignas(128) float4 tile[128], out[128];
    __shared__ uint64_t full;
    const int t = threadIdx.x;
    const bool issues = __shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one();
    if (issues) {
        mbarrier_init(&full, 2);
        fence_mbarrier_init();
    }
    __syncthreads();
    cp_async_16(shared_address(&tile[t]), x + (size_t)blockIdx.x * 256 + t);
    cp_async_commit();
    cp_async_wait<0>();
    cp_async_commit();
    cp_async_wait<1>();
    cp_async_wait<0>();
    __syncthreads();
    const float4 v = tile[t ^ 1];
    __syncthreads();
    fence_proxy_async();
    if (issues) {
        mbarrier_expect_tx(&full, sizeof(tile));
        bulk_load(tile, x + (size_t)blockIdx.x * 256 + 128, sizeof(tile), &full);
        mbarrier_expect_tx(&full, 0);
        mbarrier_arrive(&full);
        mbarrier_arrive(&full);
    }
    mbarrier_wait(&full, 0);
    const float4 w = tile[t ^ 2];
    out[t] = make_float4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w);
    fence_proxy_async();
    fence_proxy_async();
    __syncthreads();
    if (issues) {
        bulk_store(y + (size_t)blockIdx.x * 128, out, sizeof(out));
        bulk_commit();
        bulk_commit();
        bulk_wait<0>();
        bulk_commit();
        bulk_wait_read<0>();
        bulk_wait<0>();
    }
}

extern "C" __global__ void __launch_bounds__(256) before(const float *x, float *y, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    grid_launch_dependents();
    __nanosleep(500000);
    if (i < n) y[i] = x[i] * x[i];
}

extern "C" __global__ void __launch_bounds__(256) after(const float *y, float *z, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    grid_wait();
    if (i < n) {
        const float v = y[i];
        grid_wait();
        z[n - 1 - i] = v + y[n - 1 - i];
    }
}

// A block of one thread waits for nobody.
extern "C" __global__ void __block_size__((1, 1, 1)) alone(const int *x, int *y, int n) {
    __shared__ int sums[2];
    x += (size_t)blockIdx.x * n;
    sums[0] = sums[1] = 0;
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        sums[i % 2] += x[i];
        __syncthreads();
    }
    y[blockIdx.x] = sums[0] - sums[1];
}
