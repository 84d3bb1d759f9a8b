"""Texts about rules and instructions: ``tclint rules``, ``tclint explain`` and ``tclint isa``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tclint._json import to_json
from tclint.findings.rules import Rule, all_rules, first_sentence, manual_reference, nearest, words_of
from tclint.isa.forms import Form, OperandSpec
from tclint.isa.table import LOWERINGS, Table, split_opcode
from tclint.isa.target import KNOWN, dotted

__all__ = [
    "UnknownOpcode",
    "facts",
    "isa",
    "rule_json",
    "rule_list",
    "rules_json",
    "rules_markdown",
    "rules_short",
    "rules_table",
]

_WIDTH = 110
"""Columns of the description of an instruction, unless the terminal has fewer."""
_MIN_BESIDE = 40
"""Columns beside the name of a rule for its summary; where there are fewer, the summary is below."""
_MAX_DESCRIBED = 4
"""Forms that are described in full; more are listed."""
_MAX_SPELLINGS = 16
"""Spellings that are listed; of more, the first and the last are shown."""
_LIST = """\
# Rules

{rules} rules in {families} families, generated from their pages by `tclint rules --output-format markdown`. A check can
lower the severity and confidence of a single finding. `--select` and `--ignore` take ids, names and families. A rule
that is off by default is checked if `--select` or `--extend-select` names it.
"""


class UnknownOpcode(LookupError):
    """There is no instruction with this opcode. The message may suggest one."""

    def __str__(self) -> str:
        return str(self.args[0])


# ---------------------------------------------------------------- rules


def rule_list(rules: Sequence[Rule], width: int | None = None) -> str:
    """One line per rule: id, severity, name, summary. A rule that is off by default is marked.

    With a *width*, the summary is wrapped into as many columns, below the name where there is little room beside it.
    """
    rows = [(rule.id, rule.severity.label + ", off" * (not rule.default), rule.name) for rule in rules]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row, rule in zip(rows, rules, strict=True):
        head = "  ".join(text.ljust(size) for text, size in zip(row, widths, strict=True))
        if width is None:
            lines.append(f"{head}  {rule.summary}")
        elif width - len(head) < _MIN_BESIDE:
            lines += [head.rstrip(), *_wrapped(rule.summary, width, " " * (widths[0] + 2))]
        else:
            first, *more = _wrapped(f"{head}  {rule.summary}", width, " " * (len(head) + 2), first="")
            lines += [first, *more]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """*text* in lines of at most *width* columns, the later ones indented, and so the first one unless it is given."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _severity(rule: Rule) -> str:
    """The severity of a rule in words, with that of the setting ``strict`` and whether the rule is off by default."""
    strict = f" ({rule.strict.label} with --strict)" if rule.strict is not None else ""
    return f"{rule.severity.label}{strict}{'' if rule.default else ', off by default'}"


def rules_table(rules: Sequence[Rule]) -> str:
    """A Markdown table for each family. Links are relative to docs/rules.md, which has the tables of all rules."""
    families: dict[str, list[str]] = {}
    for rule in rules:
        sentence = first_sentence(rule.body.partition("\n")[2]).replace("|", "\\|")
        cells = (
            f"[{rule.id}](../rules/{rule.id}.md)",
            rule.name,
            _severity(rule),
            rule.confidence.label,
            sentence,
        )
        families.setdefault(rule.family, []).append(f"| {' | '.join(cells)} |\n")
    tables = (
        f"## {family}\n\n| rule | name | severity | confidence | what it finds |\n|---|---|---|---|---|\n{''.join(rows)}"
        for family, rows in families.items()
    )
    return "\n".join((_LIST.format(rules=len(rules), families=len(families)), *tables))


def rules_markdown(rules: Iterable[Rule]) -> str:
    """The pages of the rules, each with a heading and a line of metadata."""
    return "\n".join(
        f"# {rule.id} {rule.name}\n\n"
        f"Severity {_severity(rule)}, confidence {rule.confidence.label}, "
        f"{manual_reference(rule.manual)}, since tclint {rule.since}.\n\n{rule.body}"
        for rule in rules
    )


def rules_short(rules: Iterable[Rule], width: int) -> str:
    """The rules in a few lines each: what one finds, how grave and how certain that is, and what to write instead."""
    return "\n".join("".join(f"{line}\n" for line in _short(rule, width)) for rule in rules)


def _short(rule: Rule, width: int) -> Iterator[str]:
    head = f"{rule.id} {rule.name}: {_severity(rule)}, confidence {rule.confidence.label}"
    yield from _wrapped(head, width, "  ", first="")
    yield from _wrapped(rule.summary, width, "  ")
    for producer, words in words_of(rule, all_rules()).items():
        yield from _wrapped(f"{producer}: {words}", width, "    ", first="  ")
    yield from _wrapped(f"{manual_reference(rule.manual)}; tclint explain {rule.id}", width, "  ")


def rules_json(rules: Iterable[Rule]) -> str:
    """The rules as a JSON list; ``explanation`` is the page as Markdown."""
    return to_json([*map(rule_json, rules)])


def rule_json(rule: Rule) -> dict[str, Any]:
    """A rule as an object of :func:`rules_json`."""
    return {
        "id": rule.id,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity.label,
        "strict": rule.severity_if(strict=True).label,
        "default": rule.default,
        "confidence": rule.confidence.label,
        "since": rule.since,
        "manual": list(rule.manual),
        "summary": rule.summary,
        "confirmed_by": {where: list(kinds) for where, kinds in rule.confirmed_by.items()},
        "words": dict(words_of(rule, all_rules())),
        "explanation": rule.body,
    }


# ---------------------------------------------------------------- instructions


def isa(table: Table, opcode: str, width: int = _WIDTH) -> str:
    """The description of the forms that an opcode, the name of a form, or a prefix of either denotes, in any case.

    Raises UnknownOpcode.
    """
    width = min(width, _WIDTH)
    opcode = (opcode.split() or [""])[0].rstrip(";")
    forms = _meant(table, opcode) or _meant(table, _in_case(table, opcode))
    if not forms:
        words = [*table.roots, *table.forms]
        where = f"the table of PTX ISA {dotted(KNOWN)}"
        raise UnknownOpcode(f"unknown instruction '{opcode}' in {where}{nearest(opcode, words)}")
    if len(forms) > _MAX_DESCRIBED:
        column = max(len(form.name) for form in forms)
        lines = [
            line
            for form in forms
            for line in _wrapped(f"{form.name:{column}}  {form.summary}", width, " " * (column + 2), first="")
        ]
        return "\n".join([*lines, "", f"{len(forms)} forms; `tclint isa NAME` describes one."]) + "\n"
    others = [form.name for form in _spelled(table, opcode) if form not in forms]
    more = [f"other forms: {', '.join(others)}\n"] if others else []
    return "\n".join(["\n".join(_described(form, width)) + "\n" for form in forms] + more)


def _meant(table: Table, text: str) -> list[Form]:
    """The forms that *text* denotes, as their name, as a complete opcode, as some words of it, or as a prefix of it."""
    if text in table.forms:
        return [table.forms[text]]
    whole = {form.name: form for form, _, _ in table.candidates(text)}
    if whole:
        return list(whole.values())
    started = [form for form in table if text and any(s.text.startswith(text) for s in form.syntax)]
    return _spelled(table, text) or started


def _in_case(table: Table, text: str) -> str:
    """*text* with each of its words in the case that it has in the table."""
    names = [
        *table.forms,
        *(modifier for form in table for syntax in form.syntax for modifier in syntax.accepts),
    ]
    words = {word.lower(): word for name in names for word in name.split(".")}
    return ".".join(words.get(word, word) for word in text.lower().split("."))


def _spelled(table: Table, text: str) -> list[Form]:
    """The forms whose opcodes can contain all words of *text*."""
    root, modifiers = split_opcode(text)
    found = {
        form.name: form for form, syntax in table.roots.get(root, ()) if syntax.accepts.issuperset(modifiers)
    }
    return list(found.values())


def facts(form: Form) -> list[tuple[str, list[str]]]:
    """The properties of a form as (title, lines). A row with an empty title continues the previous one."""
    engine = form.effects.commits or form.effects.waits
    rows: list[tuple[str, list[str]]] = [
        ("syntax", [syntax.text for syntax in form.syntax]),
        *((f"  .{name}", [_shortened(spellings)]) for name, spellings in _choices(form)),
        ("operands", list(_operands(form))),
        ("roles", [", ".join(f"{role}: {name}" for role, name in form.roles.items())]),
        ("executed by", [_executed_by(form)]),
        ("completion", list(_completion(form))),
        ("event", [] if form.effects.begins is not None else [form.event.replace("-", " ")]),
        ("group", [engine] if engine else []),
        ("since", [f"PTX ISA {dotted(form.available.since)}"]),
        ("targets", [form.available.describe()]),
        ("", list(_requirements(form))),
        ("machine code", list(_lowerings(form))),
        ("manual", [manual_reference([form.manual])] if form.manual else []),
        ("example", list(form.examples[:1])),
    ]
    return [(title, [line for line in lines if line]) for title, lines in rows]


def _described(form: Form, width: int) -> Iterator[str]:
    yield from _wrapped(f"{form.name}: {form.summary}" if form.summary else form.name, width, "  ", first="")
    rows = facts(form)
    column = max(len(title) for title, _ in rows) + 1
    for title, lines in rows:
        for number, line in enumerate(lines):
            head, indent = f"  {'' if number else title:{column}}", " " * (column + 4)
            if title == "example":
                yield f"{head}{line}"  # in one line, so that it can be copied
            else:
                yield from _wrapped(line, width, indent, first=head)


def _choices(form: Form) -> Iterator[tuple[str, frozenset[str]]]:
    """(name, spellings) of the modifiers that have several spellings."""
    slots = {slot.name: slot.spellings for syntax in form.syntax for slot in syntax.slots}
    yield from ((name, spellings) for name, spellings in slots.items() if spellings != {name})


def _shortened(spellings: frozenset[str]) -> str:
    import re

    ordered = sorted(spellings, key=lambda s: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", s)])
    if len(ordered) > _MAX_SPELLINGS:
        return f"{ordered[0]} ... {ordered[-1]} ({len(ordered)} spellings)"
    return " ".join(ordered)


def _operands(form: Form) -> Iterator[str]:
    operands = {operand.name: operand for syntax in reversed(form.syntax) for operand in syntax.operands}
    for name, operand in operands.items():
        spec = form.operands.get(name, OperandSpec())
        words = ["optional"] if operand.optional else []
        words.append("an address" if operand.style == "memory" else " and ".join(_access(spec)))
        if spec.vector:
            words.append("a vector" if spec.vector == "*" else f"a vector of {spec.vector}")
        if spec.immediates is not None:
            words.append("an integer in " + ", ".join(_range(r) for r in spec.immediates))
        yield f"{'|'.join(operand.names)}: {', '.join(words)}"


def _access(spec: OperandSpec) -> list[str]:
    return [word for word in spec.access.split() if word in ("read", "write")]


def _range(numbers: range) -> str:
    first, last = numbers[0], numbers[-1]
    if first == last:
        return str(first)
    return f"{first}..{last}" + (f" in steps of {numbers.step}" if numbers.step > 1 else "")


def _executed_by(form: Form) -> str:
    special = {
        "thread": "",
        "active": "the active lanes of the warp together",
        "lanes": "all lanes of its mask together",
    }
    who = special.get(form.scope, f"all threads of the {form.scope} together")
    if who and form.scope_when:
        who += f" (with {form.scope_when})"
    return ", ".join(filter(None, (who, f"one {form.issued_by} for all" if form.issued_by else "")))


def _completion(form: Form) -> Iterator[str]:
    if form.effects.begins is not None or form.async_reads or form.async_writes:
        by = f"by {form.group}" if form.group else "later"
        yield f"asynchronous, completed {by}" + (f", in the {form.proxy} proxy" if form.proxy else "")
        for verb, names in (("reads", form.async_reads), ("writes", form.async_writes)):
            if names:
                words = [f"the memory of {name[1:]}" if name.startswith("*") else name for name in names]
                yield f"{verb} {', '.join(words)} until then"


def _requirements(form: Form) -> Iterator[str]:
    """What modifiers and operands require beyond their form, grouped by requirement."""
    needs: dict[str, list[str]] = {}
    for requirement in form.requires:
        since = requirement.available.since
        parts = [f"PTX ISA {dotted(since)}"] if since > form.available.since else []
        if requirement.available.patterns:
            parts.append(requirement.available.describe())
        needs.setdefault(", ".join(parts), []).append(requirement.what)
    yield from (f"{', '.join(what)}: {text}" for text, what in needs.items() if text)


def _lowerings(form: Form) -> Iterator[str]:
    """What becomes of it on targets that accept and do not implement it, in the order in which the entries apply."""
    for to, one in form.lowered:
        what = f"{one.what} " if one.when else ""
        yield f"{what}{LOWERINGS[to]} on {one.available.describe()}"
