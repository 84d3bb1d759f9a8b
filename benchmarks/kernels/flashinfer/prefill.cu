// Attention of flashinfer over a paged cache, many queries a request. ELEMENT, HEAD and ROWS come from the command line.
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/variants.cuh>

using namespace flashinfer;

using Params = BatchPrefillPagedParams<ELEMENT, ELEMENT, ELEMENT, int32_t>;
using Variant = DefaultAttention</*custom mask*/ false, /*sliding window*/ true, /*soft cap*/ false, /*alibi*/ false>;

template cudaError_t flashinfer::BatchPrefillWithPagedKVCacheDispatched<
    true, ROWS, HEAD, HEAD, PosEncodingMode::kNone, false, MaskMode::kCausal, Variant, Params>(
    Params, ELEMENT*, float*, bool, cudaStream_t);
