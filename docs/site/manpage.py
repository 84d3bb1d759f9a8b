"""The man page: ``python docs/site/manpage.py > docs/tclint.1``. A test compares the two."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from commands import Command, commands

import tclint

_CHARACTERS = dict(zip("-\\\"'`^~", (r"\-", r"\e", r"\(dq", r"\(aq", r"\(ga", r"\(ha", r"\(ti"), strict=True))
_END = """\
.SH EXIT STATUS
.TP
.B 0
No finding at or above
.BR \\-\\-fail\\-on .
.TP
.B 1
Findings, or a requirement that is not met.
.TP
.B 2
A usage error, an input that could not be analysed, or a suppression that is wrong, even if there are findings too.
.SH ENVIRONMENT
.TP
.BR NO_COLOR ", " FORCE_COLOR
Turn colours off and on.
.TP
.B TCLINT_DEBUG
Set to 1, shows the traceback of an internal error.
.TP
.B TCLINT_DOCS_URL
Where the documentation is published; reports then link to the pages of rules.
.SH FILES
.TP
.IR tclint\\-ptx.toml ", " pyproject.toml
Settings, in the folder of an input or above it.
"""


def roff(text: str) -> str:
    """Text as roff shows it literally, also within the quotes of a macro."""
    return re.sub(r"[-\\\"'`^~]", lambda found: _CHARACTERS[found[0]], " ".join(text.split()))


def _lines(text: str) -> Iterator[str]:
    for line in textwrap.wrap(roff(text), 79, break_long_words=False, break_on_hyphens=False):
        yield rf"\&{line}" if line.startswith(".") else line


def page() -> str:
    """The page, in the macros of man(7)."""
    first, *others = commands()
    lines = [
        '.\\" Made by docs/site/manpage.py; do not edit.',
        f'.TH TCLINT 1 "" "tclint {tclint.__version__}" "User Commands"',
        ".ad l",  # a list of choices has no spaces between which a line could be stretched
        ".SH NAME",
        f"tclint \\- {roff(first.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        "\n.br\n".join(
            f'.B "{roff(" ".join(command.path))}"\n{roff(command.usage)}'
            for command in others
            if not command.group
        ),
        ".SH DESCRIPTION",
        *_described(first),
        ".SH COMMANDS",
        *(
            line
            for command in others
            for line in (f'.SS "{roff(" ".join(command.path))}"', *_described(command))
        ),
    ]
    return "\n".join(lines) + "\n" + _END


def _described(command: Command) -> Iterator[str]:
    for number, paragraph in enumerate(command.paragraphs):
        if number:
            yield ".PP"
        if paragraph.verbatim:
            yield from (".nf", *(roff(line) or "\\&" for line in paragraph.text.splitlines()), ".fi")
        else:
            yield from _lines(paragraph.text)
    for option in command.options:
        yield from (".TP", f'.B "{roff(option.spelling)}"', *_lines(option.help))


if __name__ == "__main__":
    print(page(), end="")
