// CUTLASS 2: D = A B with mma.sync and cp.async. ELEMENT, ROWS, COLUMNS, DEPTH and STAGES come from the command line.
#include "cutlass/cutlass.h"
#include "cutlass/gemm/device/gemm.h"

using Gemm = cutlass::gemm::device::Gemm<
    ELEMENT, cutlass::layout::RowMajor, ELEMENT, cutlass::layout::ColumnMajor, float, cutlass::layout::RowMajor, float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<ROWS, COLUMNS, DEPTH>,
    cutlass::gemm::GemmShape<ROWS / 2, COLUMNS / 2, DEPTH>, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<float, 4, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, STAGES>;

template __global__ void cutlass::Kernel<Gemm::GemmKernel>(Gemm::GemmKernel::Params);
