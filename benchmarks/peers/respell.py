"""The same kernel in words that SentryWard knows.

SentryWard 0.1.1 takes registers of the same name in different blocks for one register, and knows the loop around
``mbarrier.try_wait`` by a ``selp.b32`` but not by a ``selp.u32``. Neither says anything about the kernel, so it is asked
about a text without them: registers of inner blocks have names of their own, and ``selp.u32`` is ``selp.b32``, which does
the same. Lines stay where they are.
"""

from __future__ import annotations

import re

__all__ = ["respelled"]

_PASSED_OVER = r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|\.loc\b[^\n]*"
_TOKEN = re.compile(rf"{_PASSED_OVER}|[{{}};:]|\.reg\b[^;]*;|[A-Za-z_$%][\w$]*|[^\s\w]", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*(?=\s*[,;])")


def respelled(text: str) -> str:
    """*text* with the registers of blocks inside functions renamed apart, and ``selp.b32`` for ``selp.u32``."""
    text = re.sub(r"\bselp\.u32\b", "selp.b32", text)
    scopes: list[dict[str, str] | None] = []  # new names for each open brace; None for the braces of a vector
    pieces: list[str] = []
    copied, blocks, before = 0, 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("//", "/*", '"', ".loc")):
            continue
        new = token
        if token == "{":
            # A block is allowed where a statement is; the braces of a vector follow a word or a comma.
            scopes.append({} if not scopes or before in (";", "{", "}", ":") else None)
            blocks += 1
        elif token == "}":
            if scopes:
                scopes.pop()
        elif token.startswith(".reg") and len(scopes) > 1 and (scope := scopes[-1]) is not None:
            scope |= {name: f"{name}_in{blocks}" for name in _NAME.findall(token)}
            new = _NAME.sub(lambda found, scope=scope: scope[found[0]], token)  # type: ignore[misc]
        else:
            new = next((scope[token] for scope in reversed(scopes) if scope and token in scope), token)
        if new != token:
            pieces += [text[copied : match.start()], new]
            copied = match.end()
        before = token[-1]
    return "".join(pieces) + text[copied:]
