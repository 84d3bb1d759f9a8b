"""The accesses of each instruction, as a list to read: ``accesses.txt`` beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tclint.isa
from benchmarks.shapes import statement
from tclint.isa.accesses import Access, Proxy, StateSpace, Via
from tclint.isa.effects import FABRIC
from tclint.isa.forms import Match
from tclint.isa.table import load, table
from tests.tools.support import function, kernel, module

TABLE = Path(tclint.isa.__file__).parent
LIST = Path(__file__).with_name("accesses.txt")


@cache
def matches() -> tuple[Match, ...]:
    """The matches of all examples, but for those with registers that the tests' kernels do not declare."""
    found = (function(module(kernel(e))).instructions[0].match for form in table() for e in form.examples)
    return tuple(match for match in found if match is not None and not match.problem)


def words(access: Access) -> str:
    """``later writes shared [dst] cp-size, async``."""
    found = ["later"] if access.later else []
    found += ["writes" if access.writes else "reads", access.space.value or "generic"]
    found.append(
        {Via.ADDRESS: "[{}]", Via.MAP: "map {}", Via.HANDLE: "handle"}.get(access.via, "{}").format(
            access.operand
        )
    )
    found += [str(access.extent)] if access.extent else []
    found += [f"or a part by {access.part}"] if access.part else []
    found += ["rows"] if access.rows else []
    found += ["mbarrier"] if access.object else []
    found += ["own"] if access.own else []
    return " ".join(found) + (f", {access.proxy.value}" if access.proxy is not Proxy.GENERIC else "")


def test_accesses_are_as_listed() -> None:
    """One line for each form and each way in which its examples access memory."""
    lines = dict.fromkeys(
        f"{match.form.name}: {'; '.join(map(words, match.accesses))}" for match in matches() if match.accesses
    )
    assert list(lines) == LIST.read_text().splitlines()


def test_what_the_table_states_is_an_access() -> None:
    for match in matches():
        form, found = match.form, match.accesses
        now = [("write" if a.writes else "read", a.operand) for a in found if not a.later and not a.object]
        assert set(form.memory) <= set(now), form.name
        for names, writes in ((form.async_reads, False), (form.async_writes, True)):
            later = {a.operand for a in found if a.later and a.writes is writes and a.via is not Via.MAP}
            assert later == {name.lstrip("*") for name in names}.intersection(match.named), form.name
        assert any(a.object for a in found) is (form.roles.get("mbarrier") in match.named), form.name


def test_an_operation_with_accesses_begins_on_an_engine_or_asks_for_a_cluster() -> None:
    for match in matches():
        if any(a.later for a in match.accesses):
            assert match.form.effects.begins is not None or match.form.effects.query is not None, (
                match.form.name
            )


def test_an_operand_that_names_bytes_is_there() -> None:
    for match in matches():
        for access in match.accesses:
            assert not isinstance(access.extent, str) or access.extent in ("", *match.named), match.form.name
            assert access.space is not StateSpace.REGISTERS or access.later


def test_accesses_do_not_depend_on_the_engine(tmp_path: Path) -> None:
    """The same copies under another name and on another engine have the same accesses: nothing asks for the engine."""
    text = (TABLE / "async_copy.toml").read_text("utf-8")
    renamed = text.replace('group    = "cp.async"', 'group    = "fabric"').replace(
        "cp.async.c", "shove.async.c"
    )
    (tmp_path / "async_copy.toml").write_text(renamed, "utf-8")
    other, copies = load(tmp_path), ("cp.async.ca", "cp.async.cg")
    for opcode, shapes in (statement(e) for name in copies for e in table().forms[name].examples):
        copy, moved = (
            table().match(opcode, shapes),
            other.match(opcode.replace("cp.async.c", "shove.async.c"), shapes),
        )
        assert copy is not None
        assert moved is not None
        assert moved.form.effects.begins == FABRIC
        assert moved.accesses == copy.accesses != ()
