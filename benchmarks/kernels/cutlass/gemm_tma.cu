// CUTLASS 3 with TMA, and wgmma or tcgen05. ARCH, ELEMENT, ROWS, COLUMNS, DEPTH, CLUSTER, MAINLOOP and EPILOGUE come from
// the command line.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

using namespace cute;
using Block = Shape<Int<ROWS>, Int<COLUMNS>, Int<DEPTH>>;
using Cluster = Shape<Int<CLUSTER>, _1, _1>;
constexpr int ALIGNED = 128 / cutlass::sizeof_bits<ELEMENT>::value;

using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::ARCH, cutlass::arch::OpClassTensorOp, Block, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, cutlass::half_t, cutlass::layout::RowMajor, 8,
    cutlass::half_t, cutlass::layout::RowMajor, 8, cutlass::epilogue::EPILOGUE>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::ARCH, cutlass::arch::OpClassTensorOp, ELEMENT, cutlass::layout::RowMajor, ALIGNED, ELEMENT,
    cutlass::layout::ColumnMajor, ALIGNED, float, Block, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::MAINLOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>;

template __global__ void cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT Kernel::Params const);
