#!/bin/sh
# Builds every case for sm_90a and launches it: on an idle GPU, then under load in three processes at once, with delays and
# without. Prints a line of JSON for each; LAUNCHES is 1000 unless it is set.
set -eu
cd "$(dirname "$0")"
unset NVCC_APPEND_FLAGS NVCC_PREPEND_FLAGS
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
launches=${LAUNCHES:-1000}

build() { # NAME CASE FLAG...
    name=$1 case=$2
    shift 2
    nvcc -O3 -std=c++17 -w -gencode arch=compute_90a,code=sm_90a -DCASE="$case" "$@" -o "$built/$name" cases.cu
}
all() { # LAUNCHES DELAYS
    for program in $programs; do timeout 300 "$built/$program" "$1" "$2" || true; done
}

for case in CP_ASYNC_ARRIVE COMPLETE_TX ELECTED_ARRIVE STMATRIX_BULK WIDE_FENCE_BULK FENCE_OF_ONE_BULK CP_ASYNC_BULK \
    OWN_OPERANDS COPY_OF_ANOTHER_LANE SETMAXNREG_OF_A_WARP STMATRIX_WGMMA STMATRIX_WGMMA_BUSY; do
    build "$case" "$case" &
done
for case in ELECTED_ARRIVE WIDE_FENCE_BULK; do build "$case.broken" "$case" -DBROKEN & done
for case in STMATRIX_BULK FENCE_OF_ONE_BULK STMATRIX_WGMMA_BUSY; do build "$case.repaired" "$case" -DREPAIRED & done
wait
programs=$(ls "$built")
all 200 0
export LOAD=1
for delays in 1 0; do
    for process in 1 2 3; do all "$launches" "$delays" >"$built/$process.$delays.json" & done
    wait
done
cat "$built"/*.json
