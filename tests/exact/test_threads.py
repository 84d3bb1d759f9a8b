"""Registers in every thread of a CTA, compared with what each instruction was made to compute."""

from __future__ import annotations

import pytest

from benchmarks.random_kernels import Maker, Op, Program, numbers
from tclint.analyses.model import KernelModel
from tclint.exact import Vectors, World, shapes, worlds
from tests.tools.support import analysed, kernel, module


def model_of(body: str, directives: str = ".reqntid 64") -> KernelModel:
    return analysed(module(kernel(f"{body}\nret;", directives=directives)))


def vectors(model: KernelModel, count: int = 1) -> list[tuple[World, Vectors]]:
    made = worlds(model.function, model.module.variables, count)
    return [(world, Vectors(model.cfg, model.values.defs, world)) for world in made]


def at_end(model: KernelModel, name: str, number: int = 0) -> int | list[int]:
    """A register where the kernel ends, in a world."""
    register = next(r for r, each in enumerate(model.function.registers) if each.name == name)
    return vectors(model, number + 1)[number][1].before(register, len(model.function.instructions) - 1)


@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic_is_evaluated_exactly(seed: int) -> None:
    maker = Maker(seed)
    maker.index(planar=seed % 2 == 1, parameters=False)
    for _ in range(12):
        maker.arithmetic()
        maker.predicate()
    made = [each for each in maker.body if isinstance(each, Op)]
    shape = (16, 4) if seed % 2 else (64, 1)
    directive = f".reqntid {shape[0]}, {shape[1]}"
    program = Program(maker.body, directive, [shape], frozenset(), "arithmetic")
    model = analysed(program.text())
    names = {each.name: r for r, each in enumerate(model.function.registers)}
    ((_, found),) = vectors(model)
    last = len(model.function.instructions) - 1
    for each in made:
        evaluated = found.before(names[each.register], last)
        whole = [evaluated] * 64 if isinstance(evaluated, int) else evaluated
        assert whole == numbers(program, shape, each.register), each.text


def test_a_loop_is_evaluated_by_iteration() -> None:
    model = model_of("mov.b32 %r1, 3;\nL:\nadd.s32 %r1, %r1, 5;\nsetp.lt.s32 %p1, %r1, %r9;\n@%p1 bra L;")
    assert [at_end(model, "%r1", number) for number in range(4)] == [8, 13, 18, 23]


def test_a_shuffle_reads_the_lane_that_its_index_names() -> None:
    model = model_of("mov.u32 %r1, %tid.x;\nshfl.sync.idx.b32 %r2, %r1, 3, 31, -1;")
    assert at_end(model, "%r2") == [3] * 32 + [35] * 32


def test_a_register_of_packed_numbers_has_all_its_bits() -> None:
    model = model_of(".reg .f16x2 %packed;\nmov.b32 %packed, 0x3C003C01;")
    assert at_end(model, "%packed") == 0x3C003C01


def test_a_guarded_instruction_leaves_other_threads_alone() -> None:
    model = model_of("mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 2;\nmov.b32 %r2, 7;\n@%p1 mov.b32 %r2, 9;")
    assert at_end(model, "%r2") == [9, 9] + [7] * 62


def test_what_is_not_modelled_differs_between_threads_and_is_named() -> None:
    model = model_of("ld.global.b32 %r1, [%rd1];\nadd.s32 %r2, %r1, 1;")
    ((_, found),) = vectors(model)
    register = next(r for r, each in enumerate(model.function.registers) if each.name == "%r2")
    result = found.before(register, 2)
    assert isinstance(result, list)
    assert len(set(result)) > 1
    assert found.open == {0}


@pytest.mark.parametrize(
    ("directives", "reads", "expected"),
    [
        (".reqntid 40", "%tid.x", {(40, 1, 1)}),
        (".reqntid 16, 4", "%tid.y", {(16, 4, 1)}),
        (".maxntid 64", "%tid.x", {(64, 1, 1), (32, 1, 1)}),
    ],
)
def test_the_shapes_of_a_cta_are_those_that_a_launch_may_have(
    directives: str, reads: str, expected: set[tuple[int, int, int]]
) -> None:
    model = model_of(f"mov.u32 %r1, {reads};", directives)
    assert set(shapes(model.function)) == expected


def test_a_kernel_that_reads_a_second_dimension_may_have_rows() -> None:
    found = shapes(model_of("mov.u32 %r1, %tid.y;", ".maxntid 256").function)
    assert (32, 8, 1) in found
    assert all(x * y * z == 256 or (y, z) == (1, 1) for x, y, z in found)
