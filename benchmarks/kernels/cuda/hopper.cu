// Small kernels for one hazard of Hopper each; benchmarks/launches says how they are launched and what comes out.
#include "ptx.cuh"

constexpr int TILE = 64, TILE_BYTES = TILE * TILE * 2;

// Where 16 bytes of a tile lie that wgmma reads: rows of 128 bytes, swizzled by 128 bytes.
__device__ __forceinline__ int swizzled(int row, int chunk) { return row * 128 + (chunk ^ row % 8) * 16; }

__device__ __forceinline__ void multiply(float (&d)[32], uint32_t a, uint32_t b, int keep) {
#pragma unroll
    for (int kk = 0; kk < TILE; kk += 16)
        wgmma_m64n64k16(d, wgmma_descriptor(a + kk * 2), wgmma_descriptor(b + kk * 2), keep | kk);
}

__device__ __forceinline__ void store_sums(float *c, int n, const float (&d)[32]) {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    float *to = c + (size_t)(warp * 16 + lane / 4) * n + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        *reinterpret_cast<float2 *>(to + j * 8) = make_float2(d[j * 4], d[j * 4 + 1]);
        *reinterpret_cast<float2 *>(to + 8 * n + j * 8) = make_float2(d[j * 4 + 2], d[j * 4 + 3]);
    }
}

// C = A B^T: tiles by cp.async, which the threads must make visible to wgmma.
extern "C" __global__ void __launch_bounds__(128) wgmma_cp_async(const uint4 *a, const uint4 *b, float *c, int n, int k) {
    constexpr int STAGES = 3;
    extern __shared__ __align__(1024) uint8_t raw[];
    const uint32_t ring = shared_address(raw);
    const int t = threadIdx.x, steps = k / TILE;
    a += (size_t)blockIdx.y * TILE * k / 8;
    b += (size_t)blockIdx.x * TILE * k / 8;
    auto load = [&](int step) {
        const uint32_t to = ring + step % STAGES * 2 * TILE_BYTES;
        for (int i = t; i < TILE * 8; i += 128) {
            const size_t from = (size_t)(i / 8) * k / 8 + step * 8 + i % 8;
            cp_async_16(to + swizzled(i / 8, i % 8), a + from);
            cp_async_16(to + TILE_BYTES + swizzled(i / 8, i % 8), b + from);
        }
    };
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) load(s);
        cp_async_commit();
    }
    float d[32];
    for (int i = 0; i < steps; ++i) {
        const uint32_t tile = ring + i % STAGES * 2 * TILE_BYTES;
        cp_async_wait<STAGES - 2>();
        fence_proxy_async();
        __syncthreads();
        if (i + STAGES - 1 < steps) load(i + STAGES - 1);
        cp_async_commit();
        wgmma_fence();
        multiply(d, tile, tile + TILE_BYTES, i);
        wgmma_commit();
        wgmma_wait<0>(d);
    }
    store_sums(c + (size_t)blockIdx.y * TILE * n + blockIdx.x * TILE, n, d);
}

// Two products in flight over tiles that were written with ordinary stores; the first is stored before the second ends.
extern "C" __global__ void __launch_bounds__(128) wgmma_two(const uint4 *a, const uint4 *b, float *c, int rounds) {
    extern __shared__ __align__(1024) uint8_t raw[];
    const uint32_t tiles = shared_address(raw);
    const int t = threadIdx.x;
    for (int r = blockIdx.x; r < rounds; r += gridDim.x) {
        uint4 values[12];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            values[i] = a[r * 2 * TILE * 8 + i * 128 + t];
            values[4 + i] = a[(r * 2 + 1) * TILE * 8 + i * 128 + t];
            values[8 + i] = b[r * TILE * 8 + i * 128 + t];
        }
#pragma unroll
        for (int i = 0; i < 12; ++i)
            *reinterpret_cast<uint4 *>(raw + i / 4 * TILE_BYTES + swizzled(i % 4 * 16 + t / 8, t % 8)) = values[i];
        fence_proxy_async();
        __syncthreads();
        float d[32], e[32];
        wgmma_fence();
        multiply(d, tiles, tiles + 2 * TILE_BYTES, 0);
        wgmma_commit();
        multiply(e, tiles + TILE_BYTES, tiles + 2 * TILE_BYTES, 0);
        wgmma_commit();
        float *to = c + (size_t)r * 2 * TILE * TILE;
        wgmma_wait<1>(d);
        store_sums(to, TILE, d);
        wgmma_wait<0>(e);
        store_sums(to + TILE * TILE, TILE, e);
        __syncthreads();  // all warps have multiplied
    }
}

// A long product; its tiles are cleared as soon as it is through.
extern "C" __global__ void __launch_bounds__(128) wgmma_cleared(const uint4 *a, const uint4 *b, float *c) {
    constexpr int STEPS = 8;
    extern __shared__ __align__(1024) uint8_t raw[];
    const uint32_t tiles = shared_address(raw);
    const int t = threadIdx.x;
    a += (size_t)blockIdx.x * TILE * 8 * STEPS;
    b += (size_t)blockIdx.x * TILE * 8 * STEPS;
    for (int i = t; i < TILE * 8 * STEPS; i += 128) {
        const int row = i / (8 * STEPS), step = i / 8 % STEPS;
        *reinterpret_cast<uint4 *>(raw + step * 2 * TILE_BYTES + swizzled(row, i % 8)) = a[i];
        *reinterpret_cast<uint4 *>(raw + step * 2 * TILE_BYTES + TILE_BYTES + swizzled(row, i % 8)) = b[i];
    }
    fence_proxy_async();
    __syncthreads();
    float d[32];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        multiply(d, tiles + step * 2 * TILE_BYTES, tiles + step * 2 * TILE_BYTES + TILE_BYTES, step);
    wgmma_commit();
    wgmma_wait<0>(d);
    __syncthreads();  // all warps have multiplied
    for (int at = STEPS * 2 * TILE_BYTES - (t + 1) * 16; at >= 0; at -= 128 * 16)
        *reinterpret_cast<uint4 *>(raw + at) = make_uint4(0, 0, 0, 0);
    store_sums(c + (size_t)blockIdx.x * TILE * TILE, TILE, d);
}

// Four warps fill two buffers, four read them: named barriers say full and empty.
extern "C" __global__ void __launch_bounds__(256) handed_over(const float *x, float *y, int tiles) {
    constexpr int FULL = 1, EMPTY = 3;
    __shared__ float buffer[2][128];
    const int t = threadIdx.x % 128;
    x += (size_t)blockIdx.x * tiles * 128;
    y += (size_t)blockIdx.x * tiles * 128;
    if (threadIdx.x < 128) {
        for (int i = 0; i < tiles; ++i) {
            const float v = x[i * 128 + t] * 3.0f;
            if (i >= 2) barrier_sync<256>(EMPTY + i % 2);
            buffer[i % 2][t] = v;
            barrier_arrive<256>(FULL + i % 2);
        }
    } else {
        for (int i = 0; i < tiles; ++i) {
            barrier_sync<256>(FULL + i % 2);
            y[i * 128 + t] = buffer[i % 2][127 - t];
            if (i + 2 < tiles) barrier_arrive<256>(EMPTY + i % 2);
        }
    }
}

// Tiles of 32 x 32 by TMA, changed where they lie, and back by TMA.
extern "C" __global__ void __launch_bounds__(128)
tensor_change(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y, int tiles) {
    __shared__ alignas(128) float buffer[2][32 * 32];
    __shared__ uint64_t full[2];
    const int t = threadIdx.x, row = blockIdx.x * 32;
    if (t == 0) {
        mbarrier_init(&full[0], 1);
        mbarrier_init(&full[1], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int i = 0; i < tiles; ++i) {
        const int s = i % 2;
        if (t == 0) {
            bulk_wait_read<1>();  // what was stored from this buffer
            mbarrier_expect_tx(&full[s], sizeof(buffer[s]));
            tensor_load_2d(buffer[s], &x, i * 32, row, &full[s]);
            mbarrier_arrive(&full[s]);
        }
        mbarrier_wait(&full[s], i / 2 & 1);
        for (int j = t; j < 32 * 32; j += 128) buffer[s][j] = buffer[s][j] * 2.0f + 1.0f;
        fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            tensor_store_2d(&y, i * 32, row, buffer[s]);
            bulk_commit();
        }
    }
    if (t == 0) bulk_wait<0>();
}

// Each block of a cluster hands what it has to the next one, and adds what it gets.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256)
cluster_ring(const unsigned *x, unsigned *y, int rounds) {
    __shared__ alignas(128) unsigned sent[256];
    __shared__ alignas(128) unsigned got[256];
    __shared__ uint64_t full, empty;  // something came; the next block has read what I sent
    const int t = threadIdx.x;
    const uint32_t rank = cluster_rank(), next = (rank + 1) % 4, last = (rank + 3) % 4;
    const bool issues = __shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one();
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 256);
        fence_mbarrier_init();
    }
    cluster_sync();
    unsigned v = x[blockIdx.x * 256 + t];
    for (int r = 0; r < rounds; ++r) {
        if (r) mbarrier_wait_cluster(&empty, (r - 1) & 1);
        sent[t] = v;
        fence_proxy_async();
        __syncthreads();
        if (issues) {
            mbarrier_arrive_expect_tx(&full, sizeof(got));
            bulk_copy_cluster(map_shared(shared_address(got), next), sent, sizeof(sent),
                              map_shared(shared_address(&full), next));
        }
        mbarrier_wait(&full, r & 1);
        v += got[(t + 1) % 256];
        if (r + 1 < rounds) mbarrier_arrive_cluster(map_shared(shared_address(&empty), last));
    }
    y[blockIdx.x * 256 + t] = v;
    cluster_sync();  // nobody leaves while the others still send
}

// Large stores, one after the other from the same buffer.
extern "C" __global__ void __launch_bounds__(256) bulk_flood(const unsigned *x, unsigned *y, int rounds) {
    constexpr int WORDS = 8192;
    __shared__ alignas(128) unsigned out[WORDS];
    const int t = threadIdx.x;
    const bool issues = __shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one();
    unsigned v = x[blockIdx.x];
    y += (size_t)blockIdx.x * rounds * WORDS;
    for (int r = 0; r < rounds; ++r) {
        if (issues) bulk_wait_read<0>();
        __syncthreads();
        for (int j = WORDS - 1 - t; j >= 0; j -= 256) out[j] = v + j;
        v *= 3;
        fence_proxy_async();
        __syncthreads();
        if (issues) {
            bulk_store(y + r * WORDS, out, sizeof(out));
            bulk_commit();
        }
    }
    if (issues) bulk_wait<0>();
}

// One block stores in bulk and says so, the other one reads what was stored.
extern "C" __global__ void __launch_bounds__(256) bulk_told(const unsigned *x, unsigned *y, unsigned *z, unsigned *told) {
    constexpr int WORDS = 8192;
    __shared__ alignas(128) unsigned out[WORDS];
    const int t = threadIdx.x, pair = blockIdx.x / 2;
    y += (size_t)pair * WORDS;
    z += (size_t)pair * WORDS;
    if (blockIdx.x % 2 == 0) {
        for (int j = t; j < WORDS; j += 256) out[j] = x[pair] + j;
        fence_proxy_async();
        __syncthreads();
        if (__shfl_sync(0xffffffff, t / 32, 0) == 0 && elect_one()) {
            bulk_store(y, out, sizeof(out));
            bulk_commit();
            bulk_wait<0>();
            __threadfence();
            atomicExch(told + pair, 1);
        }
    } else {
        if (t == 0)
            while (atomicAdd(told + pair, 0) == 0) {
            }
        __threadfence();
        __syncthreads();
        for (int j = WORDS - 1 - t; j >= 0; j -= 256) z[j] = __ldcg(y + j);
    }
}

// The blocks of a cluster are not equally fast; each reads what the next one has.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256)
cluster_slow(const float *x, float *y) {
    __shared__ float own[256];
    const int t = threadIdx.x;
    const uint32_t rank = cluster_rank();
    __nanosleep(rank * 50000);
    own[t] = x[blockIdx.x * 256 + t];
    cluster_sync();
    __nanosleep(rank * 50000);
    y[blockIdx.x * 256 + t] = own[t] + load_cluster_f32(map_shared(shared_address(&own[t ^ 1]), (rank + 1) % 4));
    cluster_sync();  // nobody leaves while the other still reads
}

// The next grid starts while this one still works.
extern "C" __global__ void __launch_bounds__(256) early(const float *x, float *y, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    grid_launch_dependents();
    __nanosleep(500000);
    if (i < n) y[i] = x[i] * x[i];
}

extern "C" __global__ void __launch_bounds__(256) late(const float *y, float *z, float bias, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    grid_wait();
    if (i < n) z[n - 1 - i] = y[i] + bias;
}

// What the lanes of a warp tell each other.
extern "C" __global__ void __launch_bounds__(128) lanes(const int *x, int *y, int *positive, int limit) {
    const int i = blockIdx.x * 128 + threadIdx.x, v = x[i];
    const uint32_t alike = match_any(v & 3), above = vote_ballot(v > 0);
    const int sum = sum_of_warp(v), other = __shfl_xor_sync(0xffffffff, v, 31);
    y[i] = __popc(alike) + 100 * sum + 100000 * (vote_ballot(v > limit) != 0) + 1000000 * other;
    if (elect_one()) atomicAdd(positive, __popc(above));
}
