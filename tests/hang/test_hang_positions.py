"""Positions as they are typed, listed, and printed by cuda-gdb."""

from __future__ import annotations

import pytest

from tclint.hang.debugger import read
from tclint.hang.positions import CodePosition, PositionError, listed, position


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("72", CodePosition(72)),
        ("72x4", CodePosition(72, warps=4)),
        ("0:3=72", CodePosition(72, cta=0, warp=3)),
        ("kernel.cu:41", CodePosition(41, "kernel.cu")),
        ("src/kernel.cu:41x2", CodePosition(41, "src/kernel.cu", warps=2)),
        ("1:2=kernel.cu:41", CodePosition(41, "kernel.cu", cta=1, warp=2)),
        ("0x1a0", CodePosition(offset=0x1A0)),
        ("0x160x3", CodePosition(offset=0x160, warps=3)),
        ("kernel+0x1a0", CodePosition(offset=0x1A0, kernel="kernel")),
        ("<kernel+416>", CodePosition(offset=416, kernel="kernel")),
        ("2:0=kernel+416", CodePosition(offset=416, kernel="kernel", cta=2, warp=0)),
    ],
)
def test_a_position_has_one_meaning(text: str, expected: CodePosition) -> None:
    found = position(text)
    assert found == expected
    assert position(str(found)) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "72x", "-3", "0", "a:b=72", "0:1=72x2", "kernel+", "0x", "f.cu:", "0:1="]
)
def test_other_words_are_not_positions(text: str) -> None:
    with pytest.raises(PositionError, match=r"position|lines begin|names one warp"):
        position(text)


def test_a_list_has_spaces_commas_and_comments() -> None:
    assert listed("54, 72x4\n# those of the core dump\nring+0x10 # the producer\n") == [
        CodePosition(54),
        CodePosition(72, warps=4),
        CodePosition(offset=16, kernel="ring"),
    ]


def test_json_has_numbers_words_and_objects() -> None:
    text = '[54, "72x4", {"offset": "0x10", "kernel": "ring"}, {"line": 3, "file": "k.cu", "warp": 2, "lanes": 1}]'
    assert listed(text) == [
        CodePosition(54),
        CodePosition(72, warps=4),
        CodePosition(offset=16, kernel="ring"),
        CodePosition(3, "k.cu", cta=0, warp=2, lanes=1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[54", "is not JSON"),
        ('{"lines": [3]}', "has no list 'at'"),
        ("[true]", "true is not a position"),
        ('[{"line": 3, "where": 1}]', "unknown key 'where'"),
        ("[{}]", "needs either 'line' or 'offset'"),
        ('[{"line": 3, "offset": 4}]', "needs either 'line' or 'offset'"),
        ('[{"line": "3"}]', "'line' has the wrong type"),
        ('[{"line": -3}]', "'line' has the wrong type"),
        ('[{"offset": "ten"}]', "'offset' is not a number"),
    ],
)
def test_other_json_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PositionError, match=message):
        listed(text)


KERNELS = """\
> info cuda kernels
  Kernel Parent Dev Grid Status                             SMs Mask GridDim  BlockDim Invocation
*      0      -   0    2 Active 0x0010000000000000000000000000000000 (1,1,1) (160,1,1) ring()
"""
WARPS = """\
> info cuda warps
  Wp Active Lanes Mask Divergent Lanes Mask          Active PC Kernel BlockIdx First Active ThreadIdx
Device 0 SM 124
*  0        0xffffffff           0x00000000 0x00007f16777ac810      0  (0,0,0)               (96,0,0)
   1        0xffffffff           0x00000000 0x00007f16777ac810      0  (0,0,0)                (0,0,0)
   5        0x00000001           0x00000000 0x00007f16777ac7e0      0  (0,0,0)              (128,0,0)
"""
THREADS = """\
> info cuda threads
  BlockIdx ThreadIdx To BlockIdx ThreadIdx Count                 PC Filename  Line
Kernel 0
*  (0,0,0)   (0,0,0)     (0,0,0)  (63,0,0)    64 0x00007f16777ac810              0
   (0,0,0) (128,0,0)     (0,0,0) (128,0,0)     1 0x00007f16777ac7e0              0
"""
COUNTER = """\
> x/3i $pc
=> 0x7f16777ac810 <ring+1552>:\t@!P1 BRA 0x7f16777ac800
   0x7f16777ac820 <ring+1568>:\tBRA 0x7f16777ac750
"""
SYMBOL = 'Symbol "ring" is a function at address 0x7f16777ac200.\n'


@pytest.mark.parametrize("base", [COUNTER, SYMBOL])
def test_warps_of_cuda_gdb_are_positions(base: str) -> None:
    assert read(KERNELS + WARPS + base) == [
        CodePosition(offset=1552, kernel="ring", cta=0, warp=3),
        CodePosition(offset=1552, kernel="ring", cta=0, warp=0),
        CodePosition(offset=1504, kernel="ring", cta=0, warp=4, lanes=1),
    ]


def test_threads_of_cuda_gdb_are_preferred_to_warps() -> None:
    assert read(KERNELS + WARPS + THREADS + COUNTER) == [
        CodePosition(offset=1552, kernel="ring", cta=0, warp=0),
        CodePosition(offset=1552, kernel="ring", cta=0, warp=1),
        CodePosition(offset=1504, kernel="ring", cta=0, warp=4, lanes=1),
    ]


def test_the_program_counter_is_used_where_there_is_a_line_as_well() -> None:
    row = "*  (0,0,0)   (0,0,0)     (0,0,0)  (31,0,0)    32 0x00007f16777ac810  common.h    22\n"
    assert read(KERNELS + row + COUNTER) == [CodePosition(offset=1552, kernel="ring", cta=0, warp=0)]


def test_threads_with_a_line_need_no_address() -> None:
    row = "*  (0,0,0)   (0,0,0)     (1,0,0)  (31,0,0)    192 0x00007f16777ac810  ring.cu    41\n"
    found = read(KERNELS + row)
    assert [(p.cta, p.warp) for p in found] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]
    assert {(p.file, p.line) for p in found} == {("ring.cu", 41)}


@pytest.mark.parametrize("end", ["(0,0,4294967296)  (31,0,0)", "(0,0,0)  (999999999,0,0)"])
def test_more_threads_than_a_device_holds_are_an_error(end: str) -> None:
    row = f"*  (0,0,0)   (0,0,0)     {end}    32 0x00007f16777ac810  ring.cu    41\n"
    with pytest.raises(PositionError, match="more threads than a device holds"):
        read(KERNELS + row)


def test_the_shape_of_the_ctas_gives_the_warp() -> None:
    kernels = KERNELS.replace("(160,1,1)", "(32,4,1)")
    row = "   1        0xffffffff           0x00000000 0x00007f16777ac810      0  (0,0,0)                (0,2,0)\n"
    assert [p.warp for p in read(kernels + row + COUNTER)] == [2]
    with pytest.raises(PositionError, match="info cuda kernels"):
        read(row + COUNTER)


def test_program_counters_need_the_address_of_the_kernel() -> None:
    with pytest.raises(PositionError, match="not relative to a kernel"):
        read(KERNELS + WARPS)
