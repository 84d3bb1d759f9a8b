"""The project's prose uses the terms of the field: words.toml lists the words that it does not use, with reasons."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("words.toml")
ROOTS = ("tclint", "rules", "docs", "tests", "benchmarks", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SUFFIXES = frozenset({".py", ".md", ".toml"})

_LEXEME = re.compile(
    r"""
    \#(?P<comment>[^\n]*)
    | (?P<prefix>\b[rbfuRBFU]{1,2})?
      (?P<quote>'''|\"\"\"|'|")(?P<string>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"\bdef test_(\w+)")
_CODE = re.compile(r"``[^`\n]+``|`[^`\n]+`")
_FENCE = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$|`[^`\n]+`|\]\([^)\s]*\)", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_STATEMENT = re.compile(
    r"(?:^|(?<=[;:{])|(?<=\\n))\s*(?:@!?%?\w+\s+)?(?:\.?[a-z]\w*(?:[.:]+\w+)+|\.\w+|bra|call|ret|exit)\b(?P<operands>[^;\n]*);",
    re.MULTILINE,
)
"""What may be a statement of PTX in a string: a guard, an opcode or a directive, and operands."""
_PHRASE = re.compile(r"(?<![\w.%])[A-Za-z]+ [a-z]+ [a-z]+\b")
"""Three words in a row, which operands never are."""


class Word(NamedTuple):
    """A pattern that prose does not contain."""

    pattern: re.Pattern[str]
    write: str
    """What to write instead."""
    why: str
    found: list[str]
    passed: list[str]


class Hit(NamedTuple):
    """One occurrence of a word."""

    path: str
    line: int
    found: str
    context: str
    word: Word

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r} in {self.context!r}: write {self.word.write}. {self.word.why}"


@cache
def words() -> tuple[Word, ...]:
    """The list in words.toml."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["word"]
    return tuple(
        Word(**{**entry, "pattern": re.compile(rf"\b(?:{entry['pattern']})\b", re.IGNORECASE)})
        for entry in entries
    )


@cache
def exceptions() -> tuple[dict[str, str], ...]:
    """Words that stay: the file, the text around them, and the reason."""
    return tuple(tomllib.loads(LIST.read_text(encoding="utf-8"))["exception"])


def _excuses(item: dict[str, str], hit: Hit) -> bool:
    return hit.path == item["path"] and item["text"] in hit.context


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0]) if "\n" in match[0] else " " * len(match[0])


def _code(match: re.Match[str]) -> str:
    return match[0] if _PHRASE.search(match["operands"]) else _blank(match)


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The parts of a file that people read, each with its offset; code within them is blank."""
    if path.suffix == ".md":
        yield 0, _FENCE.sub(_blank, text)
        return
    for match in _LEXEME.finditer(text):
        if match["comment"] is not None:
            yield match.start("comment"), _CODE.sub(_blank, match["comment"])
        elif " " in match["string"]:
            string = _CODE.sub(_blank, match["string"])
            if "f" in (match["prefix"] or "").lower():
                string = _PLACEHOLDER.sub(_blank, string)
            yield match.start("string"), _STATEMENT.sub(_code, string).replace("\\n", "  ")
    for match in _NAME.finditer(text):
        yield match.start(1), match[1].replace("_", " ")


def hits(path: Path, name: str, text: str, listed: Sequence[Word]) -> Iterator[Hit]:
    """The occurrences of *listed* words in the prose of one file."""
    lines = [match.end() for match in re.finditer("\n", text)]
    for offset, part in _joined(prose(path, text), text):
        positions = [match.start() for match in re.finditer(r"\S+", part)]
        pieces = part.split()
        joined = " ".join(pieces)
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(piece) + 1)
        for word in listed:
            for match in word.pattern.finditer(joined):
                at = offset + positions[bisect_right(starts, match.start()) - 1]
                context = joined[max(0, match.start() - 60) : match.end() + 60]
                yield Hit(name, bisect_right(lines, at) + 1, match[0], context, word)


def _joined(parts: Iterator[tuple[int, str]], text: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines as one part."""
    start, end, whole = 0, -1, ""
    for offset, part in parts:
        if (
            end >= 0
            and not text[end:offset].strip(" \n#")
            and "\n" in text[end:offset]
            and "#" in text[end:offset]
        ):
            whole += " " * (offset - end) + part
        else:
            if whole:
                yield start, whole
            start, whole = offset, part
        end = offset + len(part)
    if whole:
        yield start, whole


def _files() -> Iterator[tuple[Path, str]]:
    for root in ROOTS:
        top = ROOT / root
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in SUFFIXES and path != LIST:
                yield path, path.relative_to(ROOT).as_posix()


@cache
def all_hits() -> tuple[Hit, ...]:
    """Every occurrence in the project, exceptions included."""
    return tuple(
        hit for path, name in _files() for hit in hits(path, name, path.read_text(encoding="utf-8"), words())
    )


def test_prose_uses_the_terms_of_the_field() -> None:
    left = [str(hit) for hit in all_hits() if not any(_excuses(item, hit) for item in exceptions())]
    assert not left, "\n".join(left)


def test_each_exception_is_needed_and_has_a_reason() -> None:
    for item in exceptions():
        assert item.keys() == {"path", "text", "reason"}
        assert item["reason"]
        assert any(_excuses(item, hit) for hit in all_hits()), f"nothing to except: {item['text']}"


@pytest.mark.parametrize("word", words(), ids=lambda word: word.write)
def test_a_pattern_finds_its_words_and_no_others(word: Word) -> None:
    assert word.found
    assert word.passed
    assert [text for text in word.found if not word.pattern.search(text)] == []
    assert [text for text in word.passed if word.pattern.search(text)] == []


WOMBAT = Word(re.compile(r"\b(?:wombat|old sea)\b", re.IGNORECASE), '"animal"', "It is one.", [], [])


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""A read\n    and a wombat."""', [(2, "wombat")]),
        ("a.py", "# an old\n# sea\n", [(1, "old sea")]),
        ("a.py", "def test_a_wombat_waits() -> None: ...", [(1, "wombat")]),
        ("a.py", "wombat = taken('wombat')", []),
        ("a.py", "say(f'{wombat} a wait')", []),
        ("a.py", "say('no `wombat` here')", []),
        ("a.py", "say('@%p1 bra wombat;\\nst.shared.u32 [wombat], %r1;')", []),
        ("a.py", "say('bar.sync is a wombat of it; more')", [(1, "wombat")]),
        ("a.py", "say('one\\nwombat')", []),
        ("a.py", "say('one \\nwombat')", [(1, "wombat")]),
        ("a.md", "Text `wombat`.\n\n```ptx\nwombat: ret;\n```\n\nA wombat.\n", [(7, "wombat")]),
        ("a.toml", "# Wombat.\nkey = 'wombat'\nsummary = 'One wombat'\n", [(1, "Wombat"), (3, "wombat")]),
    ],
)
def test_what_counts_as_prose(name: str, text: str, found: list[tuple[int, str]]) -> None:
    """Strings of one word are names; code in backquotes, in placeholders and of PTX is not prose."""
    assert [(hit.line, hit.found) for hit in hits(Path(name), name, text, [WOMBAT])] == found


def test_a_hit_proposes_what_to_write() -> None:
    (hit,) = hits(Path("a.md"), "a.md", "The wombat waits.\n", [WOMBAT])
    assert str(hit) == "a.md:1: 'wombat' in 'The wombat waits.': write \"animal\". It is one."
