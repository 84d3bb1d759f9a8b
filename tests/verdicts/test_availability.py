"""What is proved of the availability of what a kernel uses."""

from __future__ import annotations

import pytest

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import HazardClass, Status, Verdict
from tclint.ir.frontend import analyse
from tclint.isa.target import NEWEST
from tclint.syntax.source import Source
from tclint.verdicts import verdicts
from tests.tools.support import analysed, kernel, last_kernel, module

BODY = "mov.u32 %r1, %smid;\nfence.proxy.async;\nret;"


def available(model: KernelModel) -> Verdict:
    (found,) = verdicts(model, only=[HazardClass.AVAILABILITY])
    return found


def availability(body: str = BODY, version: str = "8.0", target: str = "sm_90", **options: str) -> Verdict:
    header = f".version {version}\n.target {target}\n.address_size 64\n"
    return available(analysed(module(kernel(body, **options), header=header)))


def test_a_kernel_that_has_all_that_it_uses_is_proved() -> None:
    found = availability()
    assert found.status is Status.PROVED, found.reasons
    assert "fence" not in {o.what for o in found.obligations if o.discharge is None}
    assert found.assumptions == ()


@pytest.mark.parametrize(
    ("version", "target"), [("7.8", "sm_90"), ("8.0", "sm_80"), (f"{NEWEST[0] + 1}.0", "sm_90")]
)
def test_an_older_target_or_version_and_a_newer_version_are_unknown(version: str, target: str) -> None:
    assert availability(version=version, target=target).status is Status.UNKNOWN


@pytest.mark.parametrize("version", ["8.9", "8.10", "7.9"])
def test_a_version_that_was_never_released_is_unknown(version: str) -> None:
    """Its number is between two that were."""
    text = f".version {version}\n.target sm_90\n.address_size 64\n{kernel('ret;')}"
    made, _ = analyse(Source.from_bytes(text.encode(), "k.ptx"))
    found = available(KernelModel(made.functions[0], made))
    assert found.status is Status.UNKNOWN
    assert version in found.reasons[0].what


def test_unknown_instructions_and_operands_are_unknown() -> None:
    assert availability("frobnicate.b32 %r1, %r2;\nret;").status is Status.UNKNOWN
    assert availability("add.s32 %r1, %r2;\nret;").status is Status.UNKNOWN


def test_a_special_register_in_an_address_must_be_available() -> None:
    body = "ld.shared.b32 %r1, [%cluster_ctarank];\nret;"
    assert availability(body, version="7.0", target="sm_80").status is Status.UNKNOWN


def test_an_unknown_directive_is_unknown() -> None:
    assert availability(directives=".frobnicated 3").status is Status.UNKNOWN


def test_what_another_kernel_lacks_does_not_matter() -> None:
    header = ".version 8.0\n.target sm_80\n.address_size 64\n"
    text = module(kernel("ret;"), kernel(BODY, "other"), header=header)
    found = available(analysed(text))
    assert found.status is Status.PROVED, found.reasons


def test_what_a_callee_lacks_matters() -> None:
    header = ".version 8.0\n.target sm_80\n.address_size 64\n"
    callee = ".func f()\n{\nfence.proxy.async;\nret;\n}"
    model = last_kernel(callee, kernel("call f;\nret;"), header=header)
    assert available(model).status is Status.UNKNOWN


def test_a_list_that_omits_something_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint.verdicts.availability.needs", lambda of, target: iter(()))
    assert availability().status is Status.UNKNOWN


def test_a_list_that_calls_everything_available_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tclint.ir.needs.Need.allows", lambda self, target, version: True)
    assert availability(target="sm_80").status is Status.UNKNOWN
