// The same kinds of pipelines through libcu++: cuda::pipeline and cuda::barrier.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(256) staged(const float *x, float *y, int tiles) {
    constexpr int STAGES = 2;
    __shared__ float ring[STAGES][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cg::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    x += (size_t)blockIdx.x * tiles * 256;
    float sum = 0;
    for (int i = 0, ahead = 0; i < tiles; ++i) {
        for (; ahead < tiles && ahead < i + STAGES; ++ahead) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, ring[ahead % STAGES], x + ahead * 256, sizeof(float) * 256, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum += ring[i % STAGES][255 - threadIdx.x];
        pipeline.consumer_release();
    }
    y[blockIdx.x * 256 + threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(128) phases(float *x, int n, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ float values[128];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&barrier, block.size());
    block.sync();
    const int i = blockIdx.x * 128 + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int r = 0; r < rounds; ++r) {
        values[threadIdx.x] = v;
        auto token = barrier.arrive();
        float own = v * 0.5f;
        barrier.wait(cuda::std::move(token));
        v = own + 0.5f * values[(threadIdx.x + 1) % 128];
        barrier.arrive_and_wait();
    }
    if (i < n) x[i] = v;
}

extern "C" __global__ void __launch_bounds__(128) group_sums(const int *x, int *y, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * 128 + threadIdx.x;
    const int sum = cg::reduce(warp, i < n ? x[i] : 0, cg::plus<int>());
    if (warp.thread_rank() == 0) atomicAdd(y, sum);
}
