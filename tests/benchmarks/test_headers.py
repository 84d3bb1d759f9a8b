"""Reading the inline assembly of NVIDIA's headers, and comparing it with ptxas."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import headers
from benchmarks.ptxas import Ptxas, before
from tclint.isa.target import Target

HEADER = r"""
template <typename = void>
__device__ void f(unsigned* a, unsigned long long b, unsigned c)
{
  asm("mbarrier.init.shared.b64 [%0], %1;" : : "r"(a), "r"(c) : "memory");
  asm("{\n\t"
      ".reg .pred P; \n\t"
      "mbarrier.test_wait.shared.b64 P, [%1], %2; // a comment \n\t"
      "selp.b32 %0, 1, 0, P; \n"
      "}" : "=r"(c) : "r"(a), "l"(b));
  asm("mbarrier.init.shared.b64 [%0], %1;" : : "r"(a), "r"(c) : "memory");
  asm("mbarrier.frob.b64 [%0];" : : "r"(a));
}
__device__ unsigned g()
{
  unsigned c;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(c));
  return c;
}
template <int N>
__device__ void h()
{
  asm("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
}
"""


@pytest.fixture
def found(tmp_path: Path) -> list[headers.Wrapper]:
    folder = tmp_path / "include" / headers._GENERATED
    folder.mkdir(parents=True)
    (folder / "f.h").write_text(HEADER, encoding="utf-8")
    (tmp_path / "other.h").write_text(HEADER, encoding="utf-8")
    paths = headers.headers(tmp_path)
    assert [path.name for path in paths] == ["f.h"]
    return headers.wrappers(paths)


def test_each_string_is_read_once(found: list[headers.Wrapper]) -> None:
    assert [wrapper.line for wrapper in found] == [5, 6, 12, 17, 23]
    init, wait, frob, _, _ = found
    assert [m.form.name for m in init.matches] == ["mbarrier.init"]
    assert [m.form.name for m in wait.matches] == ["mbarrier.wait", "selp"]
    assert "\n" not in wait.text
    assert "comment" not in wait.text
    assert (init.unknown, wait.unknown, frob.unknown) == ("", "", "no form for mbarrier.frob.b64")


def test_availability_of_a_string_is_that_of_all_its_instructions(found: list[headers.Wrapper]) -> None:
    wait = found[1]
    target = Target(80, "")
    assert wait.first(target) == (7, 0)
    assert wait.available(target, (7, 0))
    assert not wait.available(target, (6, 5))
    assert wait.first(Target(75, "")) is None


def test_a_string_needs_the_special_registers_that_it_reads(found: list[headers.Wrapper]) -> None:
    cluster = found[3]
    assert cluster.first(Target(90, "")) == (7, 8)
    assert cluster.first(Target(80, "")) is None
    assert not cluster.available(Target(80, ""), (9, 5))


@pytest.mark.parametrize(
    ("text", "target", "first"),
    [
        ("{ .reg .b64 a; .reg .b32 b; mov.b64 a, {b, %aggr_smem_size}; }", 90, (8, 1)),
        ("{ .reg .b128 a; }", 70, (8, 3)),
    ],
)
def test_a_string_needs_what_its_vectors_read_and_what_its_registers_are(
    text: str, target: int, first: tuple[int, int]
) -> None:
    wrapper = headers._read(text, "f.h", 1)
    assert wrapper.unknown == ""
    assert wrapper.first(Target(target, "")) == first
    assert not wrapper.available(Target(target, ""), before(first))


def test_an_unknown_immediate_has_a_value_that_its_operand_allows(found: list[headers.Wrapper]) -> None:
    assert found[4].text == "{  setmaxnreg.inc.sync.aligned.u32 128; }"
    assert found[4].unknown == ""


class _Oracle(Ptxas):
    """Accepts what has no ``init`` in it, under one target."""

    @property
    def targets(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("sm_80",)

    def errors(self, lines, version, target, chunk=10_000):  # type: ignore[no-untyped-def]
        return [
            "Feature X not supported on .target 'sm_80'" * ("init" in line or version < (7, 0))
            for line in lines
        ]


def test_differences_are_collected_for_each_string_and_reason(found: list[headers.Wrapper]) -> None:
    points, agreed, wrong = headers.differences(_Oracle(Path("ptxas")), found[:3])
    assert (points, agreed) == (6, 2)
    assert [(wrapper.line, why) for wrapper, why in wrong] == [
        (5, "Feature X not supported on .target TARGET (9.5 sm_80, 7.0 sm_80)"),
        (12, "no form for mbarrier.frob.b64 (9.5 sm_80, 7.0 sm_80)"),
    ]


def test_a_difference_fails_the_run(
    found: list[headers.Wrapper],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(headers, "find", lambda: _Oracle(Path("ptxas")))
    assert headers.main(["--folder", str(tmp_path)]) == 1
    assert "5 strings, 4 known; 8 points, 4 differences" in capsys.readouterr().out


def test_without_ptxas_unknown_strings_fail_the_run(
    found: list[headers.Wrapper],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none() -> Ptxas:
        raise headers.PtxasMissing("no ptxas")

    monkeypatch.setattr(headers, "find", none)
    assert headers.main(["--folder", str(tmp_path)]) == 1
    assert "no form for mbarrier.frob.b64\n    1" in capsys.readouterr().out
