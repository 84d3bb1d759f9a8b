// Two blocks of a cluster add up a row: each reads what the other has in its shared memory.
#include "ptx.cuh"

__device__ float block_sum(float v, float *scratch) {
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 8 ? scratch[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int d = 4; d; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
    return v;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
cluster_norm(const float *x, float *y, int n) {
    __shared__ float scratch[8];
    __shared__ float part;
    const uint32_t rank = cluster_rank();
    const int half = n / 2;
    x += (size_t)(blockIdx.x / 2) * n + rank * half;
    y += (size_t)(blockIdx.x / 2) * n + rank * half;
    float sum = 0;
    for (int j = threadIdx.x; j < half; j += 256) sum += x[j] * x[j];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) part = sum;
    cluster_sync();
    const float total = part + load_cluster_f32(map_shared(shared_address(&part), rank ^ 1));
    cluster_sync();  // nobody leaves while the other still reads
    const float scale = rsqrtf(total / n + 1e-6f);
    for (int j = threadIdx.x; j < half; j += 256) y[j] = x[j] * scale;
}
