"""What all checks share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from benchmarks.shapes import statement
from tclint import checks
from tclint._data import modules
from tclint.analyses.groups import WgmmaGroups
from tclint.analyses.model import KernelModel
from tclint.checks import (
    Check,
    Hit,
    KernelCheck,
    RuleId,
    _discover,
    check,
    grouped,
    kernel_checks,
    module_check,
    module_checks,
    registered,
)
from tclint.checks._needs import (
    CONTENTS,
    OBSERVES,
    SHARED,
    STORES,
    WRITES,
    contents,
    deciding,
    idle,
    needed,
    needs,
)
from tclint.findings.edits import resolve
from tclint.findings.rules import all_rules, default_rules
from tclint.findings.scales import Method
from tclint.ir import Module
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import FormUse, Function
from tclint.isa.forms import Form
from tclint.isa.table import table
from tclint.isa.target import Version
from tclint.linting import check as driver
from tclint.syntax.source import Source
from tests.tools.project import ROOT
from tests.tools.support import recording


def test_groups_and_their_members_keep_the_order_in_which_they_were_found() -> None:
    found = [("b", 3), ("a", 1), ("b", 2), ("a", 1), ("c", 0)]
    assert list(grouped(found).items()) == [("b", [3, 2]), ("a", [1, 1]), ("c", [0])]


def test_no_hits_make_no_group() -> None:
    assert grouped(iter(())) == {}


LARGE = 20_000
"""Fixtures with more bytes than this are left out: they take most of the time, and have what smaller ones have."""


def sources() -> Iterator[tuple[Source, Version | None]]:
    """The examples of the rules and the small fixtures, each with its toolkit."""
    for rule in all_rules().values():
        for block in (*rule.examples, *rule.corrections):
            yield Source(block.code.encode(), f"{rule.id}.ptx"), rule.toolkit
    for path in sorted((ROOT / "fixtures").rglob("*.ptx")):
        if path.stat().st_size <= LARGE:
            yield Source(path.read_bytes(), path.name), None


def models() -> Iterator[tuple[Source, KernelModel]]:
    """The functions of the sources. No check over modules that is left out has a hit in them."""
    for source, toolkit in sources():
        module, _ = analyse(source)
        uses = [use for function in module.functions for use in function.uses]
        omitted = [each for each in module_checks() if each not in module_checks(uses)]
        assert [hit for each in omitted for hit in each.run(module, toolkit)] == [], source.path
        for function in (inline(f, inlinable(module)) for f in module.functions):
            if function.instructions and not function.errors:
                model = KernelModel(function, module, toolkit)
                model.by_letter = True
                yield source, model


def of_subject(hits: Sequence[Hit], subject: str, source: Source, function: Function) -> list[object]:
    """The hits with a *subject*, each with what its fixes are in the text."""
    return [
        (replace(hit, fixes=(), provided=None), resolve(source, function, hit.fixes, note=False))
        for hit in hits
        if hit.subject == subject
    ]


def left_out(model: KernelModel, each: Check[KernelCheck], hits: Sequence[Hit], source: Source) -> bool:
    """Whether a check has fewer hits where it is run for one of its subjects; those with the subject must be there."""
    fewer = False
    for subject in each.subjects:
        own = KernelModel(model.function, model.module, model.toolkit)
        own.by_letter, own.on = model.by_letter, frozenset((subject,))
        alone = list(each.run(own))
        expected, found = (of_subject(some, subject, source, model.function) for some in (hits, alone))
        assert found == expected, f"{subject} in {source.path}"
        fewer |= len(alone) < len(hits)
    return fewer


def test_checks_ask_find_and_leave_out_what_they_declare_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check asks for the analyses that it declares, and yields hits of its subjects.

    So a check of which no subject is selected need not run, nor one that needs what no instruction contains. It may leave
    out what only its other rules need (:meth:`KernelModel.wants`), and nothing else.
    """
    wanted: list[tuple[str, ...]] = []
    wants = KernelModel.wants
    monkeypatch.setattr(
        KernelModel, "wants", lambda model, *rules: wanted.append(rules) or wants(model, *rules)
    )
    found: dict[KernelCheck, set[str]] = {}
    gated = 0
    fewer = set()
    with recording() as asked:
        recorded = list(zip(kernel_checks(), driver.kernel_checks(), strict=True))
        for source, model in models():
            needed_here = kernel_checks(model.function.uses)
            for each, noting in recorded:
                wanted.clear()
                hits = list(noting.run(model))
                found.setdefault(each.run, set()).update(hit.subject for hit in hits)
                if each not in needed_here:
                    gated += 1
                    assert not hits, f"{each.run} in {source.path}"
                if wanted and hits and left_out(model, each, hits, source):
                    fewer.add(each.run.__name__)
            model.release()
    assert gated > 1000
    assert {
        each.run: asked[each.run] for each in kernel_checks() if asked[each.run] != set(each.analyses)
    } == {}
    assert [each.run for each in kernel_checks() if not found[each.run] <= each.subjects] == []
    assert "tensor_memory_hazards" in fewer
    replays = [each for each in kernel_checks() if each.method is Method.REPLAY]
    assert set.union(*(found[each.run] for each in replays)) > {"MB016"}
    assert all({"BK001", "SM001"}.isdisjoint(each.subjects) for each in replays)


def nothing(model: KernelModel) -> Iterator[Hit]:
    """A check that finds nothing."""
    yield from ()


def nothing_in_a_module(module: Module, toolkit: Version | None) -> Iterator[Hit]:
    """A check over modules that finds nothing."""
    yield from ()


@pytest.mark.parametrize("malformed", ["", "WG1", "wg001", "WG001 ", "WGMMA001"])
def test_a_malformed_id_is_refused(malformed: str) -> None:
    with pytest.raises(ValueError, match="is not a rule id"):
        RuleId(malformed)


def test_a_rule_has_one_check() -> None:
    known = dict(registered())
    for register in (
        lambda: check(RuleId("WG001"))(nothing),
        lambda: module_check(RuleId("WG001"))(nothing_in_a_module),
    ):
        with pytest.raises(
            ValueError, match=r"WG001 is already decided by tclint\.checks\.wgmma\.registers_in_flight"
        ):
            register()
    assert registered() == known


def test_only_classes_of_analyses_and_replay_can_be_declared() -> None:
    with pytest.raises(ValueError, match=r"tclint\.ir\.nodes\.Module is not an analysis"):
        check(RuleId("ZZ001"), analyses=(WgmmaGroups, Module))


def test_a_rule_that_only_shares_a_check_is_refused_when_the_checks_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = list(kernel_checks())
    monkeypatch.setattr("tclint.checks._kernel", registry)
    check(also=(RuleId("ZZ001"),))(nothing)
    with pytest.raises(ValueError, match=r"nothing declares ZZ001 in also=, which no check decides"):
        _discover.__wrapped__()


# ---------------------------------------------------------------- what a module of checks needs


def use(instruction: str) -> FormUse:
    """The use that consists of one instruction."""
    opcode, shapes = statement(instruction)
    return FormUse(opcode, table().match(opcode, shapes), (), (), False, False)


def test_the_order_of_the_checks_is_that_of_their_modules_until_it_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete = kernel_checks()
    names = [each.run.__module__ for each in complete]
    assert names == sorted(names)
    monkeypatch.setattr("tclint.checks._kernel", complete[::-1])
    some = kernel_checks([use("wgmma.fence.sync.aligned;")])
    assert some == [each for each in reversed(complete) if each in some]
    assert 10 < len(some) < len(complete)


def test_modules_are_imported_where_a_kernel_contains_what_they_need() -> None:
    code = (
        "import sys; from tclint.linting.check import check_source; from tclint.syntax.source import Source\n"
        "check_source(Source(sys.stdin.buffer.read(), 'k.ptx'))\n"
        "print(*(name for name in sys.modules if name.startswith('tclint.checks.')))"
    )

    def imported(body: str) -> set[str]:
        ptx = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<9>; {body} ret; }}\n"
        done = subprocess.run(
            [sys.executable, "-c", code], input=ptx, cwd=ROOT, capture_output=True, text=True, check=True
        )
        return {name.rpartition(".")[2] for name in done.stdout.split()}

    nothing = imported("")
    assert {"assembler", "availability", "memory"} <= nothing
    assert nothing.isdisjoint({module for module, rules in deciding().items() if needs(rules)})
    wait = imported("wgmma.wait_group.sync.aligned 0;")
    assert {"wgmma", "wgmma_order", "warpgroups"} <= wait
    assert wait.isdisjoint({"tcgen05", "mbarrier", "bulk", "membermasks", "clc"})


def test_a_module_of_rules_that_are_off_is_imported_only_for_one_of_them() -> None:
    by_module: dict[str, set[str]] = {}
    for each in (*kernel_checks(), *module_checks()):
        by_module.setdefault(each.run.__module__.rpartition(".")[2], set()).update(each.rules)
    rules = all_rules()
    off = {name: found for name, found in by_module.items() if not any(rules[rule].default for rule in found)}
    assert idle(default_rules()) == off.keys() == idle(())
    assert idle({min(off["needless_waits"])}) == off.keys() - {"needless_waits"}
    wait = [use("wgmma.wait_group.sync.aligned 0;")]
    assert {rule for each in kernel_checks(wait, frozenset({"WG001"})) for rule in each.rules}.isdisjoint(
        {rule for found in off.values() for rule in found}
    )
    assert "CO001" in {rule for each in kernel_checks(wait, frozenset({"CO001"})) for rule in each.rules}


def test_the_pages_name_the_modules_that_decide_a_rule() -> None:
    found: dict[str, set[str]] = {}
    for each in (*kernel_checks(), *module_checks()):
        module = each.run.__module__.rpartition(".")[2]
        found.setdefault(module, set()).update(each.rules)
        owned = {rule for rule in each.rules if registered()[rule] is each.run}
        assert {rule for rule in owned if module not in all_rules()[rule].checks} == set(), module
    assert found.keys() == deciding().keys() == set(modules(checks.__path__))
    assert {module for module, rules in deciding().items() if not found[module].issuperset(rules)} == set()


def test_what_a_page_needs_is_what_some_instruction_contains() -> None:
    named = {need for rule in all_rules().values() for need in rule.needs}
    assert named == {*CONTENTS, SHARED, OBSERVES, STORES, WRITES}
    assert {name for name, is_in in CONTENTS.items() if not any(map(is_in, table().forms.values()))} == set()


def looked_at(form: Form) -> Iterator[str]:
    """The modules whose checks, by their code, look at instructions of a *form*."""
    asynchronous = form.event == "issue" and form.group != "cp.async"
    if form.scope == "warpgroup":
        yield "warpgroups"
    if form.scope == "lanes":
        yield "membermasks"
    if "metadata" in form.roles:
        yield "operands"
    if "id" in form.roles or (
        form.event in ("barrier-sync", "barrier-arrive", "barrier-wait") and form.scope != "lanes"
    ):
        yield from ("barriers", "barrier_phases")
    if form.proxy == "async" and (form.async_reads or form.async_writes):
        yield from ("async_reads", "proxies")
    if (
        asynchronous and form.group in ("wgmma", "tcgen05", "bulk", "mbarrier")
    ) or form.event == "clc-request":
        yield "proxies"
    if asynchronous and form.group in ("bulk", "mbarrier"):
        yield from ("bulk", "bulk_loads", "bulk_operands", "bulk_signals", "refills", "clusters")
    if "remote" in form.roles or form.optimized or {"mbarrier", "mask"} <= form.roles.keys():
        yield "bulk_operands"
    if form.align or "mbarrier" in form.roles:
        yield "cp_async"
    if form.compute == "mapa" or ("cluster" in form.name and form.event.startswith("barrier")):
        yield "clusters"
    if "tensormap" in form.roles:
        yield "proxies"
    if form.issued_by == "thread":
        yield "tcgen05_issue"
    if form.event.startswith("pdl"):
        yield "grid_control"
    if form.event.startswith("mbarrier") and form.group != "cp.async":
        yield from ("mbarrier", "mbarrier_objects", "mbarrier_order", "mbarrier_parity", "mbarrier_phases")
    if form.event.startswith("tmem"):
        yield from ("tmem_balance", "tmem_columns", "tmem_in_use", "tmem_pairs", "tmem_warps")


def test_every_form_that_a_check_looks_at_is_in_what_its_module_needs() -> None:
    seen = set()
    for form in table().forms.values():
        for module in looked_at(form):
            for example in form.examples:
                found = contents([use(example)])
                assert needed(module, found), f"{module} looks at {example}"
                seen.add(module)
    assert len(seen) > 20
