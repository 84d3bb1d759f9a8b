"""``tclint targets``: what each kernel requires, as text for people and as JSON for programs.

docs/targets.md shows both; docs/targets.schema.json is the schema of the JSON. ``schema`` is incremented when a key is
removed or changes its meaning, not when one is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tclint._dataclass import dataclass
from tclint._json import to_json
from tclint.driver.one import Input
from tclint.inspect.inputs import chosen, shown
from tclint.inspect.requirements import FirstUse, Requirements, required
from tclint.inspect.tables import Cells, columns, few, printable_line, short_name
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Module
from tclint.isa.diagnostics import driver_for
from tclint.isa.table import LOWERINGS
from tclint.isa.target import KNOWN, TOOLKITS, Target, Version, dotted, toolkit_for
from tclint.report.formats._style import BOLD, RED, YELLOW, Style
from tclint.syntax.source import Problem, Source

__all__ = ["SCHEMA", "ShownTargets", "read", "render_json", "render_text", "show"]

SCHEMA = 1
_BECOMES: Mapping[str, str] = {**LOWERINGS, "slow": "may be much slower"}
"""What becomes of an instruction that a target accepts and does not implement, in words."""


@dataclass(frozen=True, slots=True)
class KernelTargets:
    """One kernel or function."""

    name: str
    entry: bool
    line: int
    requires: Requirements | None
    """None if it contains a syntax error."""


@dataclass(frozen=True, slots=True)
class ShownTargets:
    """What is shown of one input."""

    path: str
    member: str | None
    problems: tuple[Problem, ...]
    module: Module | None = None
    requires: Requirements | None = None
    """What the whole module requires; None if it could not be read, or is none."""
    kernels: tuple[KernelTargets, ...] = ()
    functions: tuple[str, ...] = ()
    """The names of all functions with a body."""


def read(source: Source, entry: tuple[str, ...] = ()) -> ShownTargets:
    """What the kernels in *source* require, or the functions that match a pattern in *entry*."""
    module, problems = analyse(source)
    old = _dated_back(source, module)

    def line(at: int) -> int:
        return source.position(at).line

    empty = module.version is None and not module.functions
    whole = None if empty or any(f.damaged for f in old.functions) else required(old, None, line)
    starts = {f.start: f for f in old.functions}
    found = (
        KernelTargets(
            f.name, f.entry, line(f.start), None if f.damaged else required(old, starts[f.start], line)
        )
        for f in chosen(module, entry)
    )
    names = tuple(f.name for f in module.bodies)
    return ShownTargets(source.path, source.member, tuple(problems), module, whole, tuple(found), names)


def _dated_back(source: Source, module: Module) -> Module:
    """The module in *source* as one of the first version, in which each feature is noted, however common."""
    start, end = module.version_span
    first = b".version 1.0".ljust(end - start) if module.version is not None else b""
    return analyse(Source(source.data[:start] + first + source.data[end:], source.path))[0]


def show(item: Input, entry: tuple[str, ...] = ()) -> ShownTargets:
    """What is shown of one input. Every error becomes a problem, unless ``TCLINT_DEBUG`` is set."""
    return shown(item, entry, read, lambda path, member, why: ShownTargets(path, member, (why,)))


# ---------------------------------------------------------------- text


def render_text(shown: Iterable[ShownTargets], color: bool = False) -> str:
    """Every kernel with its least targets, what decides them, and what they do not implement."""
    style = Style(color)
    blocks = [block for one in shown for block in _blocks(one, style)]
    return "\n".join("".join(f"{printable_line(line, color)}\n" for line in block) for block in blocks)


def _blocks(one: ShownTargets, style: Style) -> Iterator[list[str]]:
    where = one.path if one.member is None else f"{one.path}({one.member})"
    for problem in one.problems:
        at = f"{where}:{problem.line}" if problem.line else where
        yield [f"{style(RED, 'error')}: {at}: {problem.message}"]
    if one.module is None:
        return
    for kernel in one.kernels:
        kind = "kernel" if kernel.entry else "function"
        title = style(BOLD, f"{kind} {short_name(kernel.name)}")
        yield [f"{title}  {where}:{kernel.line}{_declared(one.module)}", *_lines(kernel.requires, style)]
    if one.requires is not None and one.requires.versions not in [
        _versions(kernel) for kernel in one.kernels
    ]:
        yield [f"{style(BOLD, 'module')}  {where}{_declared(one.module)}", *_lines(one.requires, style)]


def _versions(kernel: KernelTargets) -> Mapping[Target, Version] | None:
    return kernel.requires.versions if kernel.requires is not None else None


def _declared(module: Module) -> str:
    version = f", .version {dotted(module.version)}" if module.version is not None else ""
    return version + (f", .target {module.target}" if module.target is not None else "")


def _lines(requires: Requirements | None, style: Style) -> Iterator[str]:
    if requires is None:
        yield f"  {style(RED, 'not shown')}: it contains a syntax error"
        return
    rows: list[Cells] = [("target", "PTX ISA", "CUDA", "driver", "target because of", "version because of")]
    for least in requires.minimal:
        target_because = _first(least.target_because, "")
        new = least.version == least.target.introduced
        version_because = _first(least.version_because, f".target {least.target}" if new else "")
        cuda = _cuda(least.version) or f"before {dotted(min(TOOLKITS))}"
        driver = driver_for(least.version) or ""
        rows.append((str(least.target), dotted(least.version), cuda, driver, target_because, version_because))
    if requires.minimal:
        yield from (f"  {line}" for line in columns(rows))
    else:
        yield f"  {style(RED, 'no target')} has everything that it uses: {few([*map(_at, requires.conflicts)])}"
    for lowered in requires.lowered:
        targets = ", ".join(_numbers(lowered.targets, requires.versions))
        what = _at(FirstUse(lowered.what, lowered.line))
        yield f"  {style(YELLOW, 'note')}: on {targets}: {what} {_BECOMES[lowered.to]}"
    if requires.unknown:
        unknown = few([*map(_at, requires.unknown)])
        yield f"  {style(YELLOW, 'at least')}: the table of PTX ISA {dotted(KNOWN)} does not have {unknown}"


def _first(uses: tuple[FirstUse, ...], otherwise: str) -> str:
    return _at(uses[0]) if uses else otherwise


def _at(use: FirstUse) -> str:
    return f"{use.what} (line {use.line})"


def _cuda(version: Version) -> str | None:
    """The first toolkit that has *version*; None if that is older than all that are known."""
    toolkit = toolkit_for(version) if version >= min(TOOLKITS.values()) else None
    return dotted(toolkit) if toolkit is not None else None


def _numbers(targets: tuple[Target, ...], allowed: Iterable[Target]) -> list[str]:
    """*targets* without suffixes, where all that are *allowed* with that number are among them."""
    partial = {other.number for other in allowed if other not in targets}
    names = (
        str(target) if target.number in partial else str(Target(target.number, "")) for target in targets
    )
    return list(dict.fromkeys(names))


# ---------------------------------------------------------------- JSON


def render_json(shown: Iterable[ShownTargets]) -> str:
    """The same as a JSON document, with all targets that have everything."""
    files = [_file(one) for one in shown]
    return to_json({"schema": SCHEMA, "files": files})


def _file(one: ShownTargets) -> dict[str, Any]:
    module = one.module
    return {
        "path": one.path,
        "member": one.member,
        "status": "failed" if module is None else "partial" if one.problems else "analysed",
        "problems": [{"line": problem.line, "message": problem.message} for problem in one.problems],
        "version": dotted(module.version) if module is not None and module.version is not None else None,
        "target": str(module.target) if module is not None and module.target is not None else None,
        "module": _json(one.requires),
        "kernels": [
            {"name": k.name, "entry": k.entry, "line": k.line, "requires": _json(k.requires)}
            for k in one.kernels
        ],
    }


def _json(requires: Requirements | None) -> dict[str, Any] | None:
    if requires is None:
        return None
    return {
        "minimal": [
            {
                **_assembles(least.target, least.version),
                "target_because": _uses(least.target_because),
                "version_because": _uses(least.version_because),
            }
            for least in requires.minimal
        ],
        "targets": [_assembles(target, version) for target, version in requires.versions.items()],
        "conflicts": _uses(requires.conflicts),
        "lowered": [
            {"what": one.what, "line": one.line, "to": one.to, "targets": [str(t) for t in one.targets]}
            for one in requires.lowered
        ],
        "unknown": _uses(requires.unknown),
    }


def _assembles(target: Target, version: Version) -> dict[str, str | None]:
    return {
        "target": str(target), "version": dotted(version), "cuda": _cuda(version), "driver": driver_for(version),
    }  # fmt: skip


def _uses(uses: Iterable[FirstUse]) -> list[dict[str, Any]]:
    return [{"what": use.what, "line": use.line} for use in uses]
