"""Changes of PTX that must not change what is reported: other names, other lines."""

from __future__ import annotations

import re
from collections.abc import Callable

from tclint.findings.finding import FileReport

_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|[%$\w.]*[%$\w]|\s+|[^\s\w]", re.DOTALL)
_KEPT = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|cluster_\w+|clusterid|nclusterid|clock\w*)(\.[xyzw])?"
)


def _registers(code: str) -> list[str]:
    """The names that ``.reg`` declares, a range as its prefix."""
    declared = re.findall(r"\.reg\s+[.\w\s]*?\.\w+\s+([^;()]+)[;)]", code)
    return [name.strip().partition("<")[0] for names in declared for name in names.split(",")]


def renamed_registers(code: str) -> str:
    """*code* with another name for every register that it declares."""
    new = {old: f"%q{k}_" for k, old in enumerate(sorted(set(_registers(code))))}
    ranges = set(re.findall(r"(%\w+?)<\d+>", code))

    def rename(word: str) -> str:
        prefix = word.rstrip("0123456789")
        if _KEPT.fullmatch(word):
            return word
        return new[prefix] + word[len(prefix) :] if prefix in ranges else new.get(word, word)

    return "".join(map(rename, _TOKEN.findall(code)))


def renamed_labels(code: str) -> str:
    """*code* with another name for every label."""
    labels = re.findall(r"^\s*([A-Za-z_$]\w*):", code, re.MULTILINE)
    new = {old: f"$L__BB{k}_{len(labels) - k}" for k, old in enumerate(sorted(set(labels)))}
    return "".join(new.get(token, token) for token in _TOKEN.findall(code))


def comments_and_line_breaks(code: str) -> str:
    """A comment and a line break between any two tokens of an instruction, which ``.loc`` and directives keep whole."""
    lines = []
    for line in code.splitlines():
        if re.match(r"\s+(@|[a-z])", line) and line.rstrip().endswith(";"):
            line = re.sub(r"([,{\[]) ?", r"\1 /* a, b; */\n\t\t", line).replace(" ", "  ", 1) + " // end"
        lines += [line, "// between"]
    return "\r\n".join(lines) + "\n"


Rewriter = Callable[[str], str]
REWRITERS: dict[Rewriter, re.Pattern[str]] = {
    renamed_registers: re.compile(r"\.reg"),
    renamed_labels: re.compile(r"^\s*[a-z]\w*:", re.MULTILINE),
    comments_and_line_breaks: re.compile(";"),
}
"""Each with what it cannot leave as it is."""


Identity = tuple[str, str | None, int, int, str]


def identities(report: FileReport) -> list[Identity]:
    """Rule, entry, ordinal of the statement within its function or module, count and fingerprint of each finding."""
    assert report.source is not None
    text = report.source.data.decode()
    code = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    found = []
    for finding in report.findings:
        head = re.search(rf"\.(?:entry|func)\b[^{{;]*?\b{finding.entry}\b", code) if finding.entry else None
        ordinal = code.count(";", head.end(), finding.span.start) if head else 0
        found.append((finding.rule.id, finding.entry, ordinal, finding.count, finding.fingerprint))
    return sorted(found, key=str)
