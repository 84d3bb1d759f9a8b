// Attention of flashinfer over a paged cache, one query a request. ELEMENT and HEAD come from the command line.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>

using namespace flashinfer;

using Params = BatchDecodeParams<ELEMENT, ELEMENT, ELEMENT, int32_t>;
using Variant = DefaultAttention</*custom mask*/ false, /*sliding window*/ false, /*soft cap*/ true, /*alibi*/ false>;

template cudaError_t flashinfer::BatchDecodeWithPagedKVCacheDispatched<HEAD, PosEncodingMode::kRoPELlama, Variant, Params>(
    Params, ELEMENT*, float*, bool, cudaStream_t);
