// What most CUDA C++ looks like: no inline PTX.
#include <cuda_fp16.h>
#include <cstdint>

template <typename T> __device__ T warp_sum(T v) {
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    return v;
}

extern "C" __global__ void rmsnorm(const __half *x, const __half *w, __half *y, int n, float eps) {
    __shared__ float parts[32];
    x += (size_t)blockIdx.x * n;
    y += (size_t)blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = __half2float(x[i]);
        sum += v * v;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
        sum = warp_sum(sum);
        if (threadIdx.x == 0) parts[0] = rsqrtf(sum / n + eps);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = __float2half(__half2float(x[i]) * parts[0] * __half2float(w[i]));
}

extern "C" __global__ void histogram(const uint8_t *x, unsigned *counts, int n) {
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (bins[i]) atomicAdd(counts + i, bins[i]);
}

// Each warp moves what it keeps to the front, one atomic for a warp.
extern "C" __global__ void compact(const int *x, int *y, int *length, int n, int limit) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool kept = i < n && x[i] > limit;
    const unsigned votes = __ballot_sync(0xffffffff, kept);
    const int lane = threadIdx.x % 32;
    int base = 0;
    if (lane == 0) base = atomicAdd(length, __popc(votes));
    base = __shfl_sync(0xffffffff, base, 0);
    if (kept) y[base + __popc(votes & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void transpose(const float *x, float *y, int rows, int columns) {
    __shared__ float tile[32][33];
    const int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int d = 0; d < 32; d += 8)
        if (r + d < rows && c < columns) tile[threadIdx.y + d][threadIdx.x] = x[(size_t)(r + d) * columns + c];
    __syncthreads();
    const int rt = blockIdx.y * 32 + threadIdx.x, ct = blockIdx.x * 32 + threadIdx.y;
    for (int d = 0; d < 32; d += 8)
        if (ct + d < columns && rt < rows) y[(size_t)(ct + d) * rows + rt] = tile[threadIdx.x][threadIdx.y + d];
}

__device__ __noinline__ double polynomial(double x, int degree) {
    double sum = 1.0;
    for (int i = degree; i; --i) sum = sum * x / i + 1.0;
    return sum;
}

// The last block adds up what the others left.
__device__ unsigned blocks_done;
extern "C" __global__ void sum_of_powers(const double *x, double *parts, double *total, int n, int degree) {
    __shared__ bool last;
    __shared__ double shares[8];
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += polynomial(x[i], degree);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int w = 0; w < blockDim.x / 32; ++w) sum += shares[w];
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += static_cast<volatile double *>(parts)[b];
        *total = sum;
    }
}
