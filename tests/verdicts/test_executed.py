"""What the executor observes of a class is not proved, whenever asynchronous operations complete."""

from __future__ import annotations

import re
from functools import cache

import pytest

pytest.importorskip("numpy", reason="the executor computes with numpy")

from benchmarks import executor, hardware
from benchmarks.faults import OPERATORS, Kernel, apply
from benchmarks.verdict_shares import kernels, proved
from benchmarks.verdicts import ABOUT
from tclint.findings.verdicts import HazardClass, Status
from tclint.syntax.source import Source
from tests.tools.execution import SCHEDULES

LAUNCHES = hardware.launches()
GROUPS = {
    HazardClass.WGMMA: ("wgmma",),
    HazardClass.TMEM_ACCESS: ("tcgen05.ld", "tcgen05.st"),
    HazardClass.CP_ASYNC: ("cp.async",),
}
KINDS = frozenset(("register-in-flight", "wgmma-fence", "read-too-early", "filled-twice", "tensor-memory"))
"""The observations about an operation that is used before it has completed."""
PROVED = (
    ("copy_twice", HazardClass.CP_ASYNC),
    ("gluon_matmul", HazardClass.WGMMA),
    ("triton_attention", HazardClass.WGMMA),
    ("triton_bf16", HazardClass.WGMMA),
    ("triton_bf16", HazardClass.CP_ASYNC),
    ("triton_bf16_100", HazardClass.TMEM_ACCESS),
    ("triton_bf16_100", HazardClass.CP_ASYNC),
    ("triton_matmul", HazardClass.WGMMA),
    ("triton_matmul_100", HazardClass.TMEM_ACCESS),
    ("wgmma_cleared", HazardClass.WGMMA),
    ("wgmma_pipelined", HazardClass.WGMMA),
    ("wgmma_roles", HazardClass.WGMMA),
    ("wgmma_twice", HazardClass.WGMMA),
)
"""Launches whose kernel is proved for a class."""
MUTATED = (
    ("wgmma_twice", HazardClass.WGMMA, r"deleted|0 to 1|after its commit"),
    ("triton_matmul_100", HazardClass.TMEM_ACCESS, r"deleted|to ::"),
    ("triton_bf16", HazardClass.CP_ASYNC, r"deleted|N to"),
    ("triton_bf16_100", HazardClass.CP_ASYNC, r"deleted|N to|after the wait"),
)


ORDERED = ("rmsnorm", "softmax", "triton_layernorm", "triton_layernorm_100")
"""Launches whose kernel is proved for accesses of different threads to shared memory."""


def is_proved(name: str, hazard: HazardClass, source: Source) -> bool:
    entries = {step["entry"] for step in LAUNCHES[name]["launches"]}
    found = [
        verdict.status
        for module, function in kernels(source)
        if function.name in entries
        for verdict in proved(module, function, [hazard])
    ]
    return bool(found) and set(found) == {Status.PROVED}


@cache
def original(name: str) -> Source:
    return Source.read(executor.KERNELS / LAUNCHES[name]["ptx"])


def observed(name: str, hazard: HazardClass, how: str, data: bytes | None = None) -> list[str]:
    """What the executor observes of a class in one CTA: a thread uses what an operation of its own has not completed."""
    outcome = executor.run(name, how, data, grid=(1, 1, 1), steps=200_000)
    assert outcome.end != "unsupported"
    return [
        f"{o.kind}: {o.message}"
        for execution in outcome.executions
        for o in execution.observations
        if o.kind in KINDS and not o.crosses
        and (o.other < 0 or execution.function.instructions[o.other].group in GROUPS[hazard] or o.kind == "wgmma-fence")
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "hazard"), PROVED)
def test_the_executor_observes_nothing_in_a_kernel_that_is_proved(name: str, hazard: HazardClass) -> None:
    assert is_proved(name, hazard, original(name))
    assert {how: observed(name, hazard, how) for how in SCHEDULES} == {how: [] for how in SCHEDULES}


def unordered(name: str, how: str, data: bytes | None = None) -> list[str]:
    """What the executor observes of accesses to shared memory that nothing orders, in one CTA and its first rows."""
    outcome = executor.run(name, how, data, grid=(1, 1, 1), steps=40_000)
    return [o.message for e in outcome.executions for o in e.observations if o.kind == "unordered"]


@pytest.mark.parametrize("name", ORDERED)
def test_the_executor_observes_no_race_in_a_kernel_that_is_proved(name: str) -> None:
    assert is_proved(name, HazardClass.SHARED_MEMORY, original(name))
    assert {how: unordered(name, how) for how in SCHEDULES} == {how: [] for how in SCHEDULES}


@pytest.mark.parametrize("name", ORDERED)
def test_a_race_that_the_executor_observes_is_not_proved(name: str) -> None:
    source = original(name)
    entries = {step["entry"] for step in LAUNCHES[name]["launches"]}
    (kernel,) = (
        Kernel(source.data, module, written)
        for module, function in kernels(source)
        if function.name in entries and (written := module.function(function.name)) is not None
    )
    seen = 0
    for fault in list(OPERATORS["CTA barrier deleted"].plant(kernel))[:3]:
        data = apply(kernel.data, fault.edits)
        if unordered(name, "lazy", data):
            seen += 1
            assert not is_proved(name, HazardClass.SHARED_MEMORY, Source(data, "mutant.ptx")), fault.note
    assert seen


@pytest.mark.parametrize(("name", "hazard", "operators"), MUTATED)
def test_a_fault_that_the_executor_observes_is_not_proved(
    name: str, hazard: HazardClass, operators: str
) -> None:
    source = original(name)
    entries = {step["entry"] for step in LAUNCHES[name]["launches"]}
    seen = 0
    for module, function in kernels(source):
        if function.name not in entries:
            continue
        written = module.function(function.name)
        assert written is not None
        kernel = Kernel(source.data, module, written)
        for operator, plant in OPERATORS.items():
            if not (re.search(ABOUT[hazard], operator) and re.search(operators, operator)):
                continue
            for fault in list(plant.plant(kernel))[:2]:
                data = apply(kernel.data, fault.edits)
                if found := observed(name, hazard, "lazy", data):
                    seen += 1
                    assert not is_proved(name, hazard, Source(data, "mutant.ptx")), (
                        operator,
                        fault.note,
                        found,
                    )
    assert seen


def test_no_mutant_that_a_gpu_convicted_is_proved() -> None:
    tried = 0
    for mutant in executor.convicted():
        for hazard in GROUPS:
            if re.search(ABOUT[hazard], mutant["operator"]):
                tried += 1
                source = Source(executor.mutated(mutant), "mutant.ptx")
                assert not is_proved(mutant["launch"], hazard, source), (mutant["operator"], mutant["line"])
    assert tried
