"""Texts about remarks of ptxas and errors of the driver: ``tclint explain C7510`` and ``tclint explain 222 kernel.ptx``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tclint.findings.rules import all_rules
from tclint.inspect.targets import read
from tclint.isa.diagnostics import Diagnostic, driver_for
from tclint.isa.target import Version, dotted, toolkit_for
from tclint.syntax.source import Source

__all__ = [
    "UNSUPPORTED_VERSION",
    "diagnostic_json",
    "diagnostic_markdown",
    "diagnostic_short",
    "needed_driver",
]

UNSUPPORTED_VERSION = "222"
"""The error of a driver that is older than the PTX."""


def diagnostic_markdown(one: Diagnostic) -> str:
    """The page of a remark or an error."""
    names = [f"`{name}`" for name in one.names]
    lines = [f"# {one.code}{' ' if names else ''}{', '.join(names)}", ""]
    if one.text:
        lines += [f"`ptxas info : ({one.code}) {one.text}`", ""]
    lines += [one.means, "", f"**Causes.** {one.causes}", ""]
    if one.remedy:
        lines += [f"**What to do.** {one.remedy[0].upper()}{one.remedy[1:]}.", ""]
    if one.rules:
        lines += ["**Rules that look for it:**", ""]
        for rule in (all_rules()[id] for id in one.rules):
            off = "" if rule.default else " (off by default)"
            lines.append(f"- {rule.id} {rule.name}{off}: {rule.summary}")
        lines.append("")
    return "\n".join(lines)


def diagnostic_json(one: Diagnostic) -> dict[str, Any]:
    """The same as an object."""
    return {
        "id": one.code, "names": list(one.names), "text": one.text, "means": one.means, "causes": one.causes,
        "remedy": one.remedy, "rules": list(one.rules),
    }  # fmt: skip


def diagnostic_short(one: Diagnostic) -> str:
    """Its name, what it means and what to do, a line each."""
    lines = (one.title, f"  {one.means}", f"  {one.causes}", f"  {one.remedy}" if one.remedy else "")
    return "".join(f"{line}\n" for line in lines if line)


def driver_words(version: Version) -> str:
    """The oldest driver that compiles PTX of *version* at run time, in words."""
    if driver := driver_for(version):
        since = f"driver {driver}"
    elif toolkit := toolkit_for(version):
        since = f"the driver of CUDA {dotted(toolkit)}"
    else:
        since = "a driver that tclint does not know"
    return f"{since} or a newer one"


def needed_driver(source: Source) -> Iterator[str]:
    """Which driver compiles the module in *source* at run time, and which would if its ``.version`` were as low as it can
    be: a line each."""
    shown = read(source)
    if shown.module is None or (version := shown.module.version) is None:
        yield "no .version: the driver cannot compile it"
        return
    yield f".version {dotted(version)} requires {driver_words(version)} (Linux)"
    needs, target = shown.requires, shown.module.target
    if needs is None or needs.unknown or target is None:
        return
    least = needs.versions.get(target)
    if least is not None and least < version:
        yield f"it uses nothing newer than .version {dotted(least)} on {target}, which requires {driver_words(least)}"
