"""Colours for PTX in the code blocks of the site, by the grammar and the queries that editors use too."""

from __future__ import annotations

from functools import cache
from html import escape
from itertools import groupby
from typing import Any

from tree_sitter import Query, QueryCursor

from tclint._data import data
from tclint.syntax import LANGUAGE, parse, problems

_BEFORE = b".entry f() {\n"
_CLASSES = {
    "attribute": "na",
    "comment": "c1",
    "constant": "no",
    "function": "nf",
    "function.builtin": "nf",
    "keyword": "k",
    "label": "nl",
    "number": "m",
    "operator": "o",
    "property": "na",
    "punctuation": "p",
    "string": "s",
    "type": "kt",
    "variable": "n",
}
"""Capture, or its first word -> the class that Pygments gives such a token, for which the theme has a colour."""


@cache
def _query() -> Query:
    return Query(LANGUAGE, (data("queries") / "highlights.scm").read_text(encoding="utf-8"))


def highlighted(source: str) -> str:
    """The code as HTML with a ``span`` for each token."""
    text = source.encode()
    tree, shift = parse(text), 0
    if problems(tree) and not problems(within := parse(_BEFORE + text + b"\n}")):  # statements alone
        tree, shift = within, len(_BEFORE)
    classes = [""] * len(text)
    # Later patterns are the particular ones, so they go over what earlier ones coloured.
    for _, captures in sorted(QueryCursor(_query()).matches(tree.root_node), key=lambda match: match[0]):
        for name, nodes in captures.items():
            shown = _CLASSES.get(name) or _CLASSES.get(name.partition(".")[0], "")
            for node in nodes:
                for at in range(max(node.start_byte - shift, 0), min(node.end_byte - shift, len(text))):
                    classes[at] = shown
    parts = []
    for shown, group in groupby(range(len(text)), classes.__getitem__):
        run = list(group)
        piece = escape(text[run[0] : run[-1] + 1].decode(), quote=False)
        parts.append(f'<span class="{shown}">{piece}</span>' if shown else piece)
    return "".join(parts)


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """A code block: what ``pymdownx.superfences`` calls for the language ``ptx``."""
    return f'<div class="language-ptx highlight"><pre><span></span><code>{highlighted(source)}\n</code></pre></div>'
