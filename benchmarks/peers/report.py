"""What the comparison with other tools measured, in words and tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.faults import OPERATORS
from benchmarks.results import table

__all__ = ["ABOUT", "TITLE", "section"]

TITLE = "Peers"
ABOUT = """\
Other programs that read PTX, each for a purpose of its own. *ptxas* is NVIDIA's assembler: it refuses what is not PTX for
the target, compiles the rest, and gives a little advice. *pyptx* is a Python language for writing kernels; its parser
reads any PTX, and its validator knows modifiers and numbers of operands. *SentryWard* is a verifier for Blackwell kernels:
given how one kernel is started (grid, sizes, tensor maps), it follows every thread of that start and proves that barriers
match and that no accesses race, or names what fails. tclint is given nothing but the PTX. All read the same files, each in
one process for each file."""

NAMES = {"tclint": "tclint", "ptxas": "ptxas", "pyptx": "pyptx", "sentryward": "SentryWard"}
SHOWN = 8
"""Lines of a list that are shown; the record has them all."""

Data = Mapping[str, Any]


def section(data: Data) -> list[str]:
    """The part of the page about other tools."""
    lines = _time(data["files"]) if data["files"] else []
    lines += _refusals(data["files"])
    lines += _launches(data)
    for group, about in (
        ("sample", "### Faults planted in these files"),
        ("described", "### Faults planted in the kernels that SentryWard passes"),
    ):
        mutants = [m for m in data["mutants"] if m["group"] == group]
        if mutants:
            lines += [about, "", *_faults(mutants, data["each"])]
    return lines


def _tools(rows: Sequence[Data], key: str | None = "tools") -> list[str]:
    first = rows[0][key] if key else rows[0]
    return [name for name in NAMES if name in first]


def _time(files: Sequence[Data]) -> list[str]:
    names = _tools(files)
    common = [f for f in files if not any(f["tools"][n]["refused"] for n in names)]
    sizes = sorted(f["bytes"] for f in files)
    fixtures = sum(f["file"].startswith("kernels/") for f in files)
    lines = [
        f"{len(files)} files: the {fixtures} of `fixtures/kernels` and {len(files) - fixtures} drawn from the corpus, evenly",
        f"over producers and sizes; {sizes[0]:,} to {sizes[-1]:,} bytes, {sum(sizes) / 1e6:.1f} MB together. Seconds are sums",
        f"over the {len(common)} files that all of the tools take, a process for each file, as the kernel counts them with their",
        "children; memory is the most that one process held. The last column leaves the start out: all files in one process,",
        "pyptx parsing, tclint from reading to findings.",
        "",
    ]
    rows = []
    for name in names:
        took = [f["tools"][name] for f in files if not f["tools"][name]["refused"]]
        measured = [f["tools"][name] for f in common]
        inside = [r["in process"] for r in measured if "in process" in r]
        seconds = sum(r["seconds"] if "seconds" in r else r["findings"] for r in inside)
        rows.append(
            [
                NAMES[name],
                len(took),
                sum(bool(r["said"]) for r in took),
                f"{sum(r['cpu'] for r in measured):.1f}",
                f"{sum(r['wall'] for r in measured):.1f}",
                f"{median(r['peak'] for r in measured) / 1e6:.0f}" if measured else "",
                f"{max(r['peak'] for r in measured) / 1e6:.0f}" if measured else "",
                f"{seconds:.2f}" if inside else "",
            ]
        )
    head = [
        "tool",
        "files taken",
        "files with complaints",
        "CPU s",
        "wall s",
        "median MB",
        "most MB",
        "CPU s inside",
    ]
    return [*lines, *table(head, rows)]


def reason(text: str) -> str:
    """A refusal without what differs from file to file: names, numbers and places."""
    text = re.sub(r"^ptxas [^;]*;\s*|^ptxas (\w+\s*:)?\s*|\bline \d+(:\d+)?|\bat \d+:\d+", "", text)
    text = re.sub(r"\b(entry|function) ['\w$]+", r"\1 …", text)
    text = re.sub(r"\b\d+\b", "N", text)
    return " ".join(text.split())[:100].strip(" :;,")


def _refusals(files: Sequence[Data]) -> list[str]:
    if not files:
        return []
    names = _tools(files)
    why: dict[str, Counter[str]] = {n: Counter() for n in names}
    says: dict[str, Counter[str]] = {n: Counter() for n in names}
    for file in files:
        for name in names:
            about = file["tools"][name]
            if about["refused"]:
                why[name][reason(about["refused"])] += 1
            else:
                says[name].update(sorted({reason(e) for e in about["examples"]}))
    lines = []
    for name in names:
        if why[name]:
            lines.append(f"- {NAMES[name]} refuses {sum(why[name].values())}: {_grouped(why[name])}.")
        if says[name]:
            count = sum(f["tools"][name]["said"] for f in files)
            times = "once" if count == 1 else f"{count:,} times"
            examples = ", ".join(f"“{text}”" for text, _ in says[name].most_common(3))
            lines.append(f"- {NAMES[name]} complains {times}, for example {examples}.")
    return [*lines, ""] if lines else []


def _grouped(counts: Counter[str]) -> str:
    parts = [f"“{text}” ({number})" for text, number in counts.most_common(SHOWN)]
    more = len(counts) - len(parts)
    return ", ".join(parts) + (f", and {more} others" if more > 0 else "")


def _launches(data: Data) -> list[str]:
    if not data["launches"]:
        return []
    passed = sum(one["respelled"]["result"] == "race_free" for one in data["launches"])
    lines = [
        "### SentryWard, kernel by kernel",
        "",
        f"{len(data['launches'])} kernels of `fixtures/kernels`, described in `benchmarks/peers/launches`. Registers of the same",
        "name in different blocks are one to SentryWard, and it knows the loop of a wait only with `selp.b32`; so each file was",
        "given to it once as it stands and once with other register names and that spelling, from which ptxas makes the same",
        f"code. It passes {passed} of them respelled. Seconds and memory are those of the respelled file; tclint and ptxas read",
        "the whole file, SentryWard one kernel of it.",
        "",
    ]
    by_file = {f["file"]: f["tools"] for f in data["files"]}
    others = [n for n in ("tclint", "ptxas") if data["files"] and n in data["files"][0]["tools"]]
    rows = []
    reasons: Counter[str] = Counter()
    for one in data["launches"]:
        about = one["respelled"]
        measured = by_file.get(one["file"], {})
        rows.append(
            [
                f"`{one['entry']}` {one['file'].split('.')[-2]}",
                one["as it stands"]["result"].replace("_", " "),
                about["result"].replace("_", " "),
                f"{about['cpu']:.2f}",
                f"{about['peak'] / 1e6:.0f}",
                *(f"{measured[n]['cpu']:.2f}" if n in measured else "" for n in others),
            ]
        )
        for how in ("as it stands", "respelled"):
            if one[how]["result"] != "race_free":
                reasons[f"{how}, {one[how]['result'].replace('_', ' ')}: {_code(one[how]['reason'])}"] += 1
    head = ["kernel", "as it stands", "respelled", "CPU s", "MB", *(f"{NAMES[n]} CPU s" for n in others)]
    lines += table(head, rows)
    return [*lines, *(f"- {text} ({number})" for text, number in reasons.most_common()), ""]


def _code(text: str) -> str:
    """SentryWard's word for a reason, and for an instruction that it does not know, which one that is."""
    code, _, message = text.partition(":")
    match = re.search(r"no source semantics for (\S+)", message)
    return code.replace("_", " ") + (f" `{match[1]}`" if match else "")


def _faults(mutants: Sequence[Data], each: int) -> list[str]:
    names = _tools(mutants, None)
    found_in = Counter(OPERATORS[m["operator"]].family for m in mutants)
    families = list(dict.fromkeys(o.family for o in OPERATORS.values() if o.family in found_in))
    rows: list[list[object]] = []
    for family in [*families, ""]:
        some = [m for m in mutants if family in ("", OPERATORS[m["operator"]].family)]
        row: list[object] = [family or "all", len(some), *(_found(some, n) for n in names)]
        rows.append([*row, sum(m["sentryward"]["defect"] for m in some)] if "sentryward" in names else row)
    files = len({m["file"] for m in mutants})
    head = ["family", "planted", *(NAMES[n] for n in names)]
    lines = [
        f"{len(mutants)} faults in {files} files, at most {each} of each operator of `benchmarks/faults/`, the same for all.",
        "tclint has found one if a new error or warning is of a rule about it and at its place, the others if they say anything",
        f"that they did not say of the original; by that measure tclint would have at least {sum(map(_says, mutants))}. Not every",
        "change is a fault that shows: a second wait may do the work of the one that was deleted.",
        "",
        *table([*head, "SentryWard, as a defect"] if "sentryward" in names else head, rows),
    ]
    return lines + (_against(mutants) if "sentryward" in names else [])


def _found(mutants: Iterable[Data], name: str) -> int:
    return sum(m[name]["found"] for m in mutants)


def _says(mutant: Data) -> bool:
    """Does tclint say anything new of it at default settings, of whatever rule and place?"""
    about = mutant["tclint"]
    return about["found"] or about["verdict"] == "refused" or any("/low line" not in s for s in about["new"])


def _against(mutants: Sequence[Data]) -> list[str]:
    """tclint beside SentryWard: what each found that the other did not."""
    results: Counter[str] = Counter(m["sentryward"]["result"].replace("_", " ") for m in mutants)
    undecided = [m for m in mutants if m["sentryward"]["found"] and not m["sentryward"]["defect"]]
    reasons: Counter[str] = Counter(_code(m["sentryward"]["reason"]) for m in undecided)
    lines = [
        "SentryWard passes each of these kernels without the fault, so any other result counts as found. Its results: "
        + ", ".join(f"{k} {n}" for k, n in results.most_common())
        + ". “As a defect” leaves out those that do not call the kernel wrong, though many of them name the fault: "
        + ", ".join(f"{k} ({n})" for k, n in reasons.most_common(SHOWN))
        + (", and others." if len(reasons) > SHOWN else "."),
        "",
    ]
    for one, other in (("tclint", "sentryward"), ("sentryward", "tclint")):
        alone = [m for m in mutants if m[one]["found"] and not m[other]["found"]]
        lines.append(f"- Found by {NAMES[one]} and not by {NAMES[other]}: {_operators(alone)}.")
    neither = [m for m in mutants if not m["tclint"]["found"] and not m["sentryward"]["found"]]
    return [*lines, f"- Found by neither: {_operators(neither)}.", ""]


def _operators(mutants: Sequence[Data]) -> str:
    counts = Counter(m["operator"] for m in mutants)
    shown = counts.most_common(2 * SHOWN)
    more = sum(counts.values()) - sum(n for _, n in shown)
    text = ", ".join(f"{name} ({n})" for name, n in shown) + (f", and {more} more" if more else "")
    return f"{len(mutants)}: {text}" if text else "none"
