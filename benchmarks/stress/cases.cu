// What the ISA forbids and kernels in use do, one case at a time: nvcc -DCASE=STMATRIX_BULK cases.cu
//
//   a.out LAUNCHES DELAYS    DELAYS: 0, or 1 to hold warps and lanes up at random
//
// REPAIRED adds what the ISA asks for; BROKEN takes away what the case has in its place, so that the stress is known to
// show the fault.
#include "stress.h"

enum {
    CP_ASYNC_ARRIVE = 1,  // a store, then cp.async.mbarrier.arrive, which releases no store (MB013)
    COMPLETE_TX,          // stores, then mbarrier.complete_tx, which is relaxed (MB013)
    ELECTED_ARRIVE,       // stores of a warp, then the arrival of an elected lane (MB014); BROKEN: of lane 0, in a branch
    STMATRIX_BULK,        // stmatrix with bank conflicts, barrier, bulk store, no proxy fence (PR001)
    WIDE_FENCE_BULK,      // stores with bank conflicts, fence.acq_rel.cluster in place of the proxy fence (PR001)
    FENCE_OF_ONE_BULK,    // stores of 256 threads, proxy fence in thread 0 alone (PR001)
    CP_ASYNC_BULK,        // cp.async with bank conflicts, its wait, barrier, bulk store, no proxy fence (PR002)
    OWN_OPERANDS,         // a warpgroup multiplies by what its own warps wrote, with no barrier (PR005)
    COPY_OF_ANOTHER_LANE, // a lane reads what another lane copied with cp.async (SM002)
    SETMAXNREG_OF_A_WARP, // setmaxnreg in single warps of warpgroups (CV004)
    STMATRIX_WGMMA,       // stmatrix, named barrier, mbarrier, wgmma of another warpgroup (PR001)
    STMATRIX_WGMMA_BUSY,  // the same beside warps that store with bank conflicts
};
#define CASE_NAME_(x) #x
#define CASE_NAME(x) CASE_NAME_(x)

constexpr bool bulk = CASE == STMATRIX_BULK || CASE == WIDE_FENCE_BULK || CASE == FENCE_OF_ONE_BULK || CASE == CP_ASYNC_BULK;
constexpr bool multiplies = CASE == STMATRIX_WGMMA || CASE == STMATRIX_WGMMA_BUSY;
constexpr int grid = bulk ? 396 : 1056, threads = multiplies ? 384 : 256, rounds = bulk ? 4 : 8;
constexpr int tile = 8192, per_round = bulk ? tile : 256;
#ifdef BROKEN
constexpr bool broken = true;
#else
constexpr bool broken = false;
#endif
#ifdef REPAIRED
constexpr bool repaired = true;
#else
constexpr bool repaired = false;
#endif

__global__ void __launch_bounds__(threads, 1) kernel(const uint4* input, uint32_t* output, bool delays, bool fenced) {
    __shared__ alignas(1024) uint32_t buffer[tile];
    __shared__ alignas(16) uint32_t word[1024];
    __shared__ alignas(16) uint4 copied[256];
    __shared__ uint64_t full, empty;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const uint32_t block = blockIdx.x;
    uint32_t* out = output + (size_t)block * rounds * per_round;
    const int signals = CASE == COMPLETE_TX ? 1 : CASE == ELECTED_ARRIVE ? 4 : 128;
    auto late = [&](uint32_t who, int cycles) {
        if (delays) spin(mix(who * 7 + block) % cycles);
    };
    if (tid == 0) {
        mbarrier_init(&full, signals);
        mbarrier_init(&empty, 128);
        publish_mbarriers();
    }
    __syncthreads();

    if constexpr (CASE == CP_ASYNC_ARRIVE || CASE == COMPLETE_TX || CASE == ELECTED_ARRIVE) {
        for (int round = 0; round < rounds; round++) {
            if (warp >= 4) {
                mbarrier_wait(&full, round & 1);
                out[round * 256 + tid] = CASE == COMPLETE_TX ? word[(tid - 128) * 8] : word[(tid - 128) ^ 37];
                mbarrier_arrive(&empty);
                continue;
            }
            if (round) mbarrier_wait(&empty, (round - 1) & 1);
            if (CASE == CP_ASYNC_ARRIVE) {
                copy_16(&copied[tid], input + tid);
                late(tid + round, 4096);
                word[tid] = datum(block, round, tid);
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared(&full)) : "memory");
            } else if (CASE == COMPLETE_TX && tid == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" ::"r"(shared(&full)) : "memory");
                late(round, 4096);
                for (int i = 0; i < 128; i++) word[i * 8] = datum(block, round, i);
                asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 4;" ::"r"(shared(&full))
                             : "memory");
            } else if (CASE == ELECTED_ARRIVE && broken) {
                if (lane == 0) {
                    word[tid] = datum(block, round, tid);
                    mbarrier_arrive(&full);
                } else {
                    late(tid + round, 1 << 17);
                    word[tid] = datum(block, round, tid);
                }
            } else if (CASE == ELECTED_ARRIVE) {
                late(tid + round, 1 << 17);
                word[tid] = datum(block, round, tid);
                if (elected()) mbarrier_arrive(&full);
            }
        }
    } else if constexpr (bulk) {
        for (int round = 0; round < rounds; round++) {
            late(warp + round, 4096);
            // The lanes of a warp write 1024 bytes apart: to one bank.
            uint32_t* row = buffer + lane * 256 + warp * 32;
            for (int i = 0; i < 8; i++) {
                const uint32_t index = (i * 8 + warp) * 128 + lane;
                if (CASE == STMATRIX_BULK)
                    store_matrices(row + i * 4, datum(block, round, index), datum(block, round, index + 32),
                                   datum(block, round, index + 64), datum(block, round, index + 96));
                else if (CASE == CP_ASYNC_BULK)
                    copy_16(row + i * 4, input + (block * rounds + round) % 64 * 2048 + lane * 64 + warp * 8 + i);
                else
                    for (int j = 0; j < 4; j++) row[i * 4 + j] = datum(block, round, lane * 256 + warp * 32 + i * 4 + j);
            }
            if (CASE == CP_ASYNC_BULK) await_copies();
            if (CASE == WIDE_FENCE_BULK && !broken) asm volatile("fence.acq_rel.cluster;" ::: "memory");
            if (repaired || (CASE == FENCE_OF_ONE_BULK && !broken && tid == 0)) proxy_fence();
            __syncthreads();
            if (tid == 0) {
                bulk_store(out + round * tile, buffer, tile * 4);
                asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            }
            __syncthreads();
        }
        if (tid == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    } else if constexpr (CASE == OWN_OPERANDS || multiplies) {
        __half *a = (__half*)buffer, *b = a + 4096;
        for (int i = tid; i < 4096; i += threads) {
            a[i] = __float2half(0);
            b[i] = __float2half((float)((i + block) % 4));
        }
        proxy_fence();
        __syncthreads();
        if (CASE == OWN_OPERANDS && warp < 4) {
            late(warp, 1 << 17);
            for (int i = tid; i < 4096; i += 128) a[i] = __float2half((float)((i + block) % 8));
            proxy_fence();
            out[tid] = __float_as_uint(product(a, b));
        } else if (multiplies && warp < 4) {
            for (int round = 0; round < rounds; round++) {
                if (round) mbarrier_wait(&empty, (round - 1) & 1);
                late(warp + round, 2048);
                for (int i = 0; i < 4; i++) {
                    const int matrix = (warp * 4 + i) * 4 + lane / 8;
                    __half2 pair = __floats2half2_rn((matrix + lane + block + round) % 8, (lane * 3 + i + round) % 8);
                    const uint32_t r = *(uint32_t*)&pair;
                    store_matrices(a + matrix * 64 + lane % 8 * 8, r, r, r, r);
                }
                if (repaired || fenced) proxy_fence();
                asm volatile("bar.sync 1, 128;" ::: "memory");
                mbarrier_arrive(&full);
            }
        } else if (multiplies && warp < 8) {
            for (int round = 0; round < rounds; round++) {
                mbarrier_wait(&full, round & 1);
                out[round * 256 + tid] = __float_as_uint(product(a, b));
                mbarrier_arrive(&empty);
            }
        } else if (CASE == STMATRIX_WGMMA_BUSY) {
            volatile uint32_t* other = buffer + 4096 + lane * 128 + (warp - 8) * 32;
            for (int i = 0; i < 480; i++) other[i % 8] = i;
        }
    } else if constexpr (CASE == COPY_OF_ANOTHER_LANE) {
        for (int round = 0; round < rounds; round++) {
            if (mix(lane + round * 32 + block) & 1) late(tid + round, 4096);
            copy_16(&copied[tid], input + (block * rounds + round) % 256 * 256 + tid);
            await_copies();
            if (repaired) __syncwarp();
            out[round * 256 + tid] = copied[tid ^ 1].x;
            __syncthreads();
        }
    } else if constexpr (CASE == SETMAXNREG_OF_A_WARP) {
        if (warp == 0 || warp == 5) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        late(warp, 4096);
        if (warp == 6) asm volatile("setmaxnreg.inc.sync.aligned.u32 104;");
        float value[64], sum = 0;
        for (int i = 0; i < 64; i++) value[i] = input[(tid + i) % 256].x;
        if (warp == 6)
            for (int round = 0; round < 20; round++)
                for (int i = 0; i < 64; i++) value[i] = value[i] * 3 + value[(i + 1) % 64];
        for (int i = 0; i < 64; i++) sum += value[i];
        out[tid] = __float_as_uint(sum);
    }
}

// What the ISA promises for word *index* of a round.
static uint32_t correct(const std::vector<uint32_t>& input, uint32_t block, uint32_t round, uint32_t index) {
    if (CASE == STMATRIX_BULK) {  // matrix m of a warp's store has its row r from lanes 4 r to 4 r + 3
        const uint32_t lane = index / 256, warp = index / 32 % 8, i = index % 32 / 4;
        return datum(block, round, (i * 8 + warp) * 128 + lane / 8 * 32 + lane % 8 * 4 + index % 4);
    }
    if (CASE == CP_ASYNC_BULK) return input[(block * rounds + round) % 64 * 8192 + index];
    if (bulk) return datum(block, round, index);
    if (CASE == COPY_OF_ANOTHER_LANE) return input[((block * rounds + round) % 256 * 256 + (index ^ 1)) * 4];
    if (index < 128) return 0xeeeeeeeeu;
    return datum(block, round, CASE == COMPLETE_TX ? index - 128 : (index - 128) ^ 37);
}

int main(int argc, char** argv) {
    const int launches = argc > 1 ? atoi(argv[1]) : 100;
    const bool delays = argc > 2 && atoi(argv[2]);
    std::vector<uint32_t> input(1 << 20), expected((size_t)grid * rounds * per_round);
    for (size_t i = 0; i < input.size(); i++) input[i] = mix(i + 1);
    uint32_t *in, *out;
    CHECK(cudaMalloc(&in, input.size() * 4));
    CHECK(cudaMalloc(&out, expected.size() * 4));
    CHECK(cudaMemcpy(in, input.data(), input.size() * 4, cudaMemcpyHostToDevice));
    auto launch = [&](bool late, bool fenced) { kernel<<<grid, threads>>>((const uint4*)in, out, late, fenced); };
    if (CASE == OWN_OPERANDS || CASE == SETMAXNREG_OF_A_WARP || multiplies) {
        // Sums of products: the launch that is right by the ISA, or one without delays on an idle GPU, gives them.
        CHECK(cudaMemset(out, 0xee, expected.size() * 4));
        launch(false, true);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(expected.data(), out, expected.size() * 4, cudaMemcpyDeviceToHost));
    } else {
        for (size_t i = 0; i < expected.size(); i++)
            expected[i] = correct(input, i / per_round / rounds, i / per_round % rounds, i % per_round);
    }
    const char* kind = broken ? " broken" : repaired ? " repaired" : "";
    char name[64];
    snprintf(name, sizeof name, "%s%s", CASE_NAME(CASE), kind);
    return judge(name, [&] { launch(delays, false); }, out, expected, launches);
}
