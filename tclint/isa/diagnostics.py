"""What the tools around PTX report: remarks of ptxas with a code, errors of the driver, and the drivers that know a version.

``diagnostics.toml`` has the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tclint._dataclass import dataclass
from tclint.isa.documents import documents
from tclint.isa.target import Version, parse_version

__all__ = ["Diagnostic", "diagnostic", "diagnostics", "driver_for"]


@dataclass(frozen=True)
class Diagnostic:
    """A remark of ptxas or an error of the driver."""

    code: str
    """``C7510``, or the number of an error."""
    names: tuple[str, ...]
    """The names of an error, in the driver API and in the runtime."""
    text: str
    """What ptxas prints after the code; empty for an error."""
    means: str
    causes: str
    remedy: str
    """What to do about it, as an infinitive; empty if nothing can be said."""
    rules: tuple[str, ...]
    """The ids of the rules that look for what causes it."""

    @property
    def title(self) -> str:
        return " ".join((self.code, *self.names[:1]))


@cache
def diagnostics() -> Mapping[str, Diagnostic]:
    """Code or number -> every remark and error that is known, in this order."""
    document = documents().document("diagnostics")
    found = [*map(_diagnostic, document["remark"]), *map(_diagnostic, document["error"])]
    return {one.code: one for one in found}


def _diagnostic(raw: Mapping[str, Any]) -> Diagnostic:
    return Diagnostic(
        code=raw["code"] if "code" in raw else str(raw["number"]),
        names=(raw["name"], raw["runtime"]) if "name" in raw else (),
        text=raw.get("text", ""), means=raw["means"], causes=raw["causes"], remedy=raw.get("remedy", ""),
        rules=tuple(raw.get("rules", "").split()),
    )  # fmt: skip


def diagnostic(text: str) -> Diagnostic | None:
    """The diagnostic that *text* names: ``C7510``, ``716``, ``CUDA_ERROR_MISALIGNED_ADDRESS``, in any case; None if there is
    none."""
    word = text.strip("()").upper()
    known = diagnostics()
    return known.get(word) or next((d for d in known.values() if word in map(str.upper, d.names)), None)


@cache
def _drivers() -> tuple[tuple[Version, str], ...]:
    listed: Mapping[str, str] = documents().document("diagnostics")["drivers"]
    return tuple(sorted((parse_version(version), driver) for version, driver in listed.items()))


def driver_for(version: Version) -> str | None:
    """The oldest Linux driver that compiles PTX of *version* at run time: ``570.26``, or a branch, ``615``. None if that is
    not known, or older than all that are."""
    listed = _drivers()
    if version < listed[0][0]:
        return None
    return next((driver for known, driver in listed if known >= version), None)
