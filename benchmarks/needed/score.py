"""What a GPU convicted, and whether the family CO notes any of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import needed
from benchmarks.needless import noted
from benchmarks.results import table

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "collect", "figure", "judge", "tables"]

TITLE = "Synchronisation that a GPU shows to be needed"
COMMAND = "python -m benchmarks.needed judge --record"
SLICE = ""
ABOUT = """\
Kernels for sm_90a count their own mistakes. Each wait and fence that they need is deleted, and each fence narrowed; a
change is convicted if launches of the changed kernel count mistakes, and then no note may call the instruction needless
or too wide. What is not convicted may be needed as well: a GPU may order more than the ISA guarantees. The kernels were
written after these rules, and no rule was changed for them."""
_RULES = {True: ("CO001", "CO003"), False: ("CO004", "CO005")}
"""The rules that a deletion, or a narrowing, shows to be wrong."""
_KINDS = (
    ("fence.proxy", "proxy fence"), ("fence.", "memory fence"), ("membar", "memory fence"), ("cp.async.bulk", "wait for bulk copies"),
    ("cp.async", "wait for cp.async"), ("wgmma", "wait for wgmma"),
)  # fmt: skip


def collect(answer: Path) -> tuple[dict[str, Any], list[str]]:
    """The record of an answer of ``launcher.py``, without what tclint says; and what was not launched to the end.

    A change shows nothing unless the kernel as it is was launched to the end, too. Raises OSError and ValueError.
    """
    found = json.loads(answer.read_text(encoding="utf-8"))
    data: dict[str, Any] = {key: found[key] for key in ("gpu", "driver", "ptxas")} | {"jobs": []}
    originals = {job["kernel"]: _trouble(job) for job in found["jobs"] if not job["line"]}
    skipped = []
    for job in found["jobs"]:
        if trouble := _trouble(job) or originals[job["kernel"]]:
            skipped.append(f"{job['kernel']}, line {job['line']} {job['what']}".rstrip() + f": {trouble}")
        else:
            left = {key: job.get(key) for key in ("kernel", "line", "what", "launches", "wrong")}
            data["jobs"].append(left | {"hang": bool(job.get("hang"))})
    return data, skipped


def _trouble(job: Mapping[str, Any]) -> str:
    """Why a job shows neither mistakes nor their absence; "" if it shows one of them."""
    if "error" in job:
        return str(job["error"])
    done = job.get("hang") or job["wrong"] or job["launches"] == needed.LAUNCHES
    return "" if done else f"{job['launches']} launches took too long"


def is_wrong(job: Mapping[str, Any]) -> bool:
    """Whether launches of a job count mistakes or do not end."""
    return bool(job["wrong"] or job["hang"])


def judge(data: dict[str, Any]) -> None:
    """Asks tclint about the kernels of a record: the rules that note the line of each change."""
    texts = dict(needed.kernels())
    notes: dict[tuple[str, int], set[str]] = defaultdict(set)
    for name, text in texts.items():
        for rule, line in noted(Path(f"{name}.ptx"), text.encode()):
            notes[name, line].add(rule)
    for job in data["jobs"]:
        if job["line"]:
            line = texts[job["kernel"]].splitlines()[job["line"] - 1]
            job |= {"opcode": line.split()[0].rstrip(";"), "notes": sorted(notes[job["kernel"], job["line"]])}


def figure(data: Mapping[str, Any]) -> str:
    """What was convicted, and how many notes contradict it."""
    jobs = data["jobs"]
    changes = [job for job in jobs if job["line"]]
    originals = [job for job in jobs if not job["line"]]
    assert not any(map(is_wrong, originals))
    convicted = [job for job in changes if is_wrong(job)]
    wrong = [job for job in convicted if _contradicted(job)]
    places = {(job["kernel"], job["line"]) for job in convicted}
    return (
        f"{len(originals)} kernels with {len({(j['kernel'], j['line']) for j in changes})} such instructions, on an"
        f" {data['gpu']} (driver {data['driver']}, cubins by ptxas {data['ptxas']}), {needed.LAUNCHES} launches of each change:"
        f" {len(convicted)} of {len(changes)} changes are convicted, of {len(places)} instructions. Of these, {len(wrong)}"
        " have a note that contradicts it."
    )


def _contradicted(job: Mapping[str, Any]) -> bool:
    """Whether a note calls needless, or too wide, what launches show to be needed."""
    return is_wrong(job) and bool(set(_RULES[job["what"] == "deleted"]) & set(job["notes"]))


def tables(data: Mapping[str, Any]) -> list[str]:
    """The same by kind of instruction."""
    changes = [job for job in data["jobs"] if job["line"]]
    rows = []
    for kind in dict.fromkeys(kind for _, kind in _KINDS):
        mine = [job for job in changes if _kind(job["opcode"]) == kind]
        shown = {(j["kernel"], j["line"]) for j in mine if is_wrong(j)}
        rows.append(
            (kind, len({(j["kernel"], j["line"]) for j in mine}), len(shown), sum(map(_contradicted, mine)))
        )
    return table(("needed", "instructions", "convicted", "noted"), rows)


def _kind(opcode: str) -> str:
    return next(kind for beginning, kind in _KINDS if opcode.startswith(beginning))
