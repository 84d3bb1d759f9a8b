"""The rules: one Markdown page each, ``rules/<ID>.md``, which is documentation, help text and test in one.

A page starts with TOML between two ``+++`` lines (:mod:`tclint.findings.front_matter`) and continues with the sections of
``HEADINGS``, in that order. The fenced ``ptx`` blocks under *Example* are modules that the rule must report, those under
*Correct* modules that no rule reports; ``cuda`` blocks are CUDA C++ with inline assembly, for the rules about its
statements.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from tclint._data import PACKAGE, data
from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint.findings.front_matter import ID, FrontMatter, RuleError, fields, parse
from tclint.findings.scales import Confidence, Severity

HEADINGS = (
    "What it finds",
    "Why it is wrong",
    "Example",
    "Correct",
    "Exceptions",
    "How tclint decides",
    "References",
)
LANGUAGES = ("ptx", "cuda")
"""The languages of the fenced blocks that are tests."""
_SENTENCE_END = pattern(r"(?<=[.!?])\s")
_MIN_START = 4
"""Characters of a word from which a longer one is suggested that starts with them."""
_FRONT_MATTER = PACKAGE / "findings" / "front_matter.marshal"
"""Where the front matter of the pages of tclint is kept, which takes longer to parse than to lint a kernel."""


class UnknownRule(LookupError):
    """No rule has that id or name; the message may suggest one."""

    def __str__(self) -> str:
        return str(self.args[0])


class CodeBlock(NamedTuple):
    """A fenced block of a page, in one of ``LANGUAGES``; ``line`` is the line of its first line of code."""

    line: int
    code: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as its page describes it."""

    id: str
    """Letters of the family and three digits: ``WG001``. Never reused."""
    name: str
    """In kebab-case; wherever a rule is named, both ``id`` and ``name`` are accepted."""
    family: str
    severity: Severity
    """The severity of its findings unless a check lowers it."""
    confidence: Confidence
    hazards: tuple[str, ...]
    """The classes of hazards that its findings violate, by their names; empty if none."""
    since: str
    """The version of tclint that introduced it."""
    manual: tuple[str, ...]
    """The sections of the PTX ISA manual on which it is based: ``9.7.15.7.3``."""
    words: Mapping[str, str] | str = field(hash=False)
    """Producer -> the help in its terms; or the id of the rule whose table applies (``words_of``)."""
    summary: str
    """The first sentence of the page, in plain text."""
    body: str
    """The page without its front matter, as Markdown."""
    examples: tuple[CodeBlock, ...]
    """Modules in which this rule finds something."""
    corrections: tuple[CodeBlock, ...]
    """Modules in which no rule finds anything."""
    statements: tuple[CodeBlock, ...] = ()
    """Like ``examples``, in CUDA C++ with inline assembly."""
    corrected_statements: tuple[CodeBlock, ...] = ()
    """Like ``corrections``, in CUDA C++ with inline assembly."""
    toolkit: tuple[int, int] | None = None
    """The CUDA toolkit for which both are checked; None if the rule does not depend on it."""
    assembles: bool = True
    """Whether ptxas accepts the examples; it accepts all corrections."""
    strict: Severity | None = None
    """The severity of its findings with the setting ``strict``; None if that is ``severity``."""
    default: bool = True
    """Whether it is on if no setting selects rules."""
    broke: bool = False
    """Whether hardware was seen to go wrong where a note of it was; the text format prints these notes."""
    denies: str = ""
    """The assumption of proofs that its findings deny; empty if none. A finding that violates nothing leaves a proof that names
    this assumption as it is."""
    checks: tuple[str, ...] = ()
    """The modules of :mod:`tclint.checks` that decide it; empty if another package does."""
    needs: tuple[str, ...] = ()
    """What a kernel must contain one of for a finding (:mod:`tclint.checks._needs`); empty if there may be one in any."""
    confirmed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Which observations of an execution confirm a finding, by what they must have in common with it
    (:mod:`tclint.driver.evidence`); empty if none does."""
    observed_as: tuple[str, ...] = ()
    """The observations that are defects of this rule where no check has found them (:func:`claims`)."""
    inline: str = ""
    """What must be known of inline assembly for the rule to apply to it, one of ``INLINE``; empty if it does not."""
    moved: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What other rules report now (:mod:`tclint.findings.moved`); empty if nothing has moved."""
    race: bool = False
    """Whether it is about two unordered accesses to memory; two findings about the same accesses are then one defect."""
    subsumed_by: tuple[str, ...] = ()
    """The rules whose findings may be the cause of its own, or describe the same defect more precisely."""
    subsumed_by_worse: tuple[str, ...] = ()
    """The rules whose findings describe the same defect, where they are more severe than its own."""

    def severity_if(self, strict: bool) -> Severity:
        """The severity of its findings with or without the setting *strict*, unless a check changes it."""
        return self.strict if strict and self.strict is not None else self.severity

    def __reduce__(self) -> tuple[Callable[[str], Rule], tuple[str]]:
        """Pickle a rule as its id: findings are passed between processes."""
        return find, (self.id,)


class Pages(Mapping[str, Rule]):
    """Id -> rule for the pages of a folder.

    A page is parsed on first access, as a run needs only the rules with findings. Their ``front`` matter is *kept* in a
    file, if one is given.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        names = os.listdir(folder) if folder.is_dir() else ()
        self._paths = {
            name[:-3]: os.path.join(folder, name) for name in sorted(names) if name.endswith(".md")
        }
        self.front = FrontMatter(self._paths, kept)
        self._read: dict[str, Rule] = {}

    def __getitem__(self, id: str) -> Rule:
        rule = self._read.get(id)
        if rule is None:
            text = Path(self._paths[id]).read_text(encoding="utf-8")
            rule = self._read[id] = parse_page(id, text, self.front.of(id))
        return rule

    def __contains__(self, id: object) -> bool:
        return id in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def prepare() -> None:
    """Keep the front matter of the pages of tclint. Raises RuleError, and OSError if it cannot be kept."""
    all_rules().front.keep()


@cache
def all_rules() -> Pages:
    """All rules by id, in the order of their ids. Accessing one raises RuleError if its page is invalid.

    Raises RuleError if there are none: without its pages, tclint would silently find nothing.
    """
    folder = data("rules")
    rules = Pages(folder, _FRONT_MATTER)
    if not rules:
        raise RuleError(f"incomplete installation of tclint: no rules in {folder}")
    return rules


@cache
def default_rules() -> frozenset[str]:
    """The ids of the rules that are on if no setting selects rules. Raises RuleError if there are no rules."""
    return frozenset(all_rules()) - {id for id, on in declared("default").items() if not on}


@cache
def claims() -> Mapping[str, str]:
    """Observation -> the rule whose page claims it: a kind, which may be restricted.

    *KIND of ENGINE* is one of a pending operation of that engine, *KIND at ENGINE* or *KIND at FORM* one that such an
    instruction exhibits. Of several that fit, the one in this order counts, and before the kind alone.
    """
    return {name: id for id, names in declared("observed_as").items() for name in names}


def declared(key: str) -> Mapping[str, Any]:
    """Rule -> what the front matter of its page states as *key*, without the rules that state nothing
    (:meth:`FrontMatter.declared`). No page is parsed for this."""
    return all_rules().front.declared(key)


def load_rules(folder: Path) -> Mapping[str, Rule]:
    """The rules of the pages in ``folder``, with all pages read. Raises RuleError if one is invalid."""
    # A run needs neither the classes nor the time that it takes to import them.
    from graphlib import CycleError, TopologicalSorter

    from tclint.findings.verdicts import Assumption, HazardClass

    rules = Pages(folder)
    names: dict[str, str] = {}
    claimed: dict[str, str] = {}
    classes = {hazard.value for hazard in HazardClass}
    assumptions = {assumption.value for assumption in Assumption}
    for rule in rules.values():
        if (other := names.setdefault(rule.name, rule.id)) != rule.id:
            raise RuleError(f"{rule.id}.md:1: {other} already has the name {rule.name}")
        for observation in rule.observed_as:
            if (other := claimed.setdefault(observation, rule.id)) != rule.id:
                raise RuleError(f"{rule.id}.md:1: front matter: {other} already claims {observation}")
        words_of(rule, rules)
        if unknown := set(rule.hazards) - classes:
            raise RuleError(f"{rule.id}.md:1: front matter: hazards: unknown class {min(unknown)}")
        if rule.denies and rule.denies not in assumptions:
            raise RuleError(f"{rule.id}.md:1: front matter: denies: unknown assumption {rule.denies}")
        named = {key: getattr(rule, key) for key in ("subsumed_by", "subsumed_by_worse")}
        for key, others in {**named, "moved": rule.moved.get("rules", ())}.items():
            if unknown := set(others) - rules.keys():
                raise RuleError(f"{rule.id}.md:1: front matter: {key}: unknown rule {min(unknown)}")
    try:
        TopologicalSorter({rule.id: rule.subsumed_by for rule in rules.values()}).prepare()
    except CycleError as error:
        raise RuleError(
            f"{error.args[1][0]}.md:1: front matter: subsumed_by: a rule subsumes itself"
        ) from None
    return rules


def words_of(rule: Rule, rules: Mapping[str, Rule]) -> Mapping[str, str]:
    """Producer -> the help for a finding of *rule* in its terms; producers without one are omitted.

    Raises RuleError if the page refers to a rule that is not among *rules*, or that has no table of words.
    """
    if not isinstance(rule.words, str):
        return rule.words
    owner = rules.get(rule.words)
    if owner is None:
        raise RuleError(f"{rule.id}.md:1: front matter: words: unknown rule {rule.words}")
    if isinstance(owner.words, str) or not owner.words:
        raise RuleError(f"{rule.id}.md:1: front matter: words: {owner.id} has no table of words")
    return owner.words


def page(rule: Rule) -> Path:
    """The file of the page of *rule*."""
    return data("rules") / f"{rule.id}.md"


def docs_url() -> str | None:
    """The address of the published documentation, which ``TCLINT_DOCS_URL`` gives; None if that is not set."""
    from urllib.parse import quote

    base = os.environ.get("TCLINT_DOCS_URL", "").rstrip("/")
    return f"{quote(base, safe=':/@%~+,;=')}/" if base else None


def url(rule: Rule) -> str | None:
    """The address of the published page, in the layout of docs/site; None if the documentation is not published."""
    base = docs_url()
    return f"{base}rules/{rule.id}/" if base else None


def manual_reference(sections: Iterable[str]) -> str:
    """``PTX ISA 9.1, §9.7.15.7.3``: a reference to *sections* of NVIDIA's manual, numbered as in version 9.1."""
    return ", ".join(("PTX ISA 9.1", *(f"§{section}" for section in sections)))


def find(text: str) -> Rule:
    """The rule with that id or name, in any case. Raises UnknownRule, with the rules that may be meant."""
    rules = all_rules()
    if (rule := rules.get(text.upper())) is not None:
        return rule
    by_name = {rule.name: rule for rule in rules.values()}
    if (rule := by_name.get(text.lower())) is not None:
        return rule
    raise UnknownRule(f"unknown rule {text}; {_meant(text, rules)}")


def _meant(text: str, rules: Mapping[str, Rule]) -> str:
    """Which of *rules* an unknown id, name or word may stand for: a clause that ends an error message."""
    if (same := closest(text, rules)) and _folded(same) == _folded(text):
        return f"did you mean {same}?"
    if (parts := re.fullmatch(r"([a-zA-Z]{2})\d+", text)) is not None:
        family = [id for id in rules if id.startswith(parts[1].upper())]
        return f"there are {family[0]} to {family[-1]}" if family else _LISTED
    if about := _about(text, rules.values()):
        return f"{'rules' if len(about) > 1 else 'a rule'} about it: {', '.join(rule.id for rule in about)}"
    near = closest(text, [rule.name for rule in rules.values()])
    return f"did you mean {near}?" if near else _LISTED


_LISTED = "tclint rules lists them"
_MAX_ABOUT = 5
_MIN_WORD = 3
"""Letters of a word that is searched for in the pages."""


def _about(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """The rules in which all words of *text* occur: first those with them in the name, then in the summary, then often."""
    words = [word for word in re.findall(r"[^\W_]+", text.lower()) if len(word) >= _MIN_WORD]
    ranked = []
    for rule in rules:
        texts = [rule.name, rule.summary.lower(), _CODE.sub("", rule.body).lower()]
        counts = [min(len(re.findall(rf"\b{word}", t)) for word in words) if words else 0 for t in texts]
        if any(counts):
            ranked.append(([-bool(counts[0]), -bool(counts[1]), -counts[2]], rule.id, rule))
    return [rule for *_, rule in sorted(ranked, key=lambda row: row[:2])[:_MAX_ABOUT]]


_CODE = pattern(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def nearest(text: str, words: Iterable[str]) -> str:
    """``; did you mean WG001?`` if one of *words* is close to *text*, as :func:`closest` says; else empty."""
    near = closest(text, words)
    return f"; did you mean {near}?" if near else ""


def closest(text: str, words: Iterable[str]) -> str:
    """The one of *words* that *text* most likely stands for; empty if none is similar.

    Case, punctuation and the leading zeros of numbers do not count: ``WG1`` stands for WG001. Next come words that
    start with the text, then those that are spelled alike.
    """
    from difflib import get_close_matches

    wanted = _folded(text)
    by_fold = {_folded(word): word for word in words}
    if wanted in by_fold:
        return by_fold[wanted]
    longer = [fold for fold in by_fold if len(wanted) >= _MIN_START and fold.startswith(wanted)]
    near = [min(longer, key=len)] if longer else get_close_matches(wanted, by_fold, n=1)
    return by_fold[near[0]] if near else ""


def _folded(text: str) -> str:
    """*text* in lower case, its words and numbers joined by single hyphens, the numbers without leading zeros."""
    parts = re.findall(r"[^\W\d_]+|\d+", text.lower())
    return "-".join(part.lstrip("0") or "0" for part in parts)


def parse_page(rule_id: str, text: str, front: Mapping[str, Any] | None = None) -> Rule:
    """The rule that a page describes, whose *front* matter may have been parsed before.

    Raises RuleError, naming ``<rule_id>.md`` and the line, if the page is invalid.
    """

    def fail(line: int, message: str) -> RuleError:
        return RuleError(f"{rule_id}.md:{line}: {message}")

    if not ID.fullmatch(rule_id):
        raise fail(1, "the file name must be an id such as WG001")
    lines = text.splitlines()
    if lines[:1] != ["+++"] or "+++" not in lines[1:]:
        raise fail(1, "must start with TOML between two lines +++")
    close = lines.index("+++", 1)
    if front is None:
        front = parse(rule_id, "\n".join(lines[1:close]))
    meta = fields(front, lambda message: fail(1, message))
    headings, blocks = _outline(lines, close + 1, fail)
    if tuple(headings) != HEADINGS:
        missing = [heading for heading in HEADINGS if heading not in headings]
        raise fail(len(lines), f"missing: {', '.join(missing)}" if missing else "headings out of order")
    ends = [*list(headings.values())[1:], len(lines) + 1]
    sections = {
        heading: lines[line : end - 1] for (heading, line), end in zip(headings.items(), ends, strict=True)
    }
    for heading, content in sections.items():
        if not any(content):
            raise fail(headings[heading], f"nothing under {heading!r}")
        if heading in ("Example", "Correct") and not any((heading, one) in blocks for one in LANGUAGES):
            raise fail(headings[heading], f"{heading!r} needs a {' or '.join(LANGUAGES)} block")
    return Rule(
        id=rule_id,
        **meta,
        summary=re.sub("[`*]", "", first_sentence("\n".join(sections["What it finds"]))),
        body="\n".join(lines[close + 1 :]).strip() + "\n",
        examples=tuple(blocks.get(("Example", "ptx"), ())),
        corrections=tuple(blocks.get(("Correct", "ptx"), ())),
        statements=tuple(blocks.get(("Example", "cuda"), ())),
        corrected_statements=tuple(blocks.get(("Correct", "cuda"), ())),
    )


def _outline(
    lines: list[str], first: int, fail: Callable[[int, str], RuleError]
) -> tuple[dict[str, int], dict[tuple[str, str], list[CodeBlock]]]:
    """Heading -> its line, and (heading, language) -> the blocks under it, from ``lines[first]`` on."""
    headings: dict[str, int] = {}
    blocks: dict[tuple[str, str], list[CodeBlock]] = {}
    fence: tuple[int, str] | None = None  # the line of the open fence, and its language
    for number, line in enumerate(lines[first:], first + 1):
        if line.startswith("```"):
            if fence is None:
                fence = (number, line[3:].strip())
                continue
            if fence[1] in LANGUAGES:
                code = "\n".join(lines[fence[0] : number - 1]) + "\n"
                key = next(reversed(headings), ""), fence[1]
                blocks.setdefault(key, []).append(CodeBlock(fence[0] + 1, code))
            fence = None
        elif fence is None and line.startswith("## "):
            heading = line[3:].strip()
            if heading not in HEADINGS:
                raise fail(number, f"unknown heading {heading!r}: must be one of {', '.join(HEADINGS)}")
            if heading in headings:
                raise fail(number, f"heading {heading!r} appears twice")
            headings[heading] = number
        elif fence is None and line.startswith("# "):
            raise fail(number, "the title is made from id and name; start with '## What it finds'")
    if fence is not None:
        raise fail(fence[0], "code block without an end")
    return headings, blocks


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph of a Markdown text, on one line."""
    paragraph = text.strip().split("\n\n", 1)[0]
    return _SENTENCE_END.split(" ".join(paragraph.split()), maxsplit=1)[0]
