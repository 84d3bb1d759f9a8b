"""The pages of the documentation, in Markdown: ``generate(folder)``.

The site has the paths of the repository: ``rules/WG001.md`` is ``rules/WG001/``, so that the links among the pages are
those of the files, and :func:`tclint.findings.rules.url` knows where the page of a rule is. Pages about instructions and commands
are made from the ISA table and from click.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from commands import Command, commands

from tclint.findings.rules import Rule, all_rules
from tclint.inspect.explain import facts
from tclint.isa.documents import read_toml
from tclint.isa.forms import Form
from tclint.isa.table import table

ROOT = Path(__file__).resolve().parent.parent.parent
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"

_GUIDE = ("how-it-decides", "assumptions", "inputs", "configuration", "output", "ci")
_DEVELOPMENT = ("architecture", "isa-notes")
_MEASURED = ("results", "proved", "real-kernels")
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "benchmarks/README.md": "benchmarks/measure.md",
    "tclint/isa/README.md": "isa/how-to-extend.md",
}
"""Pages outside docs/, and where they are on the site."""
_FOLDERS = {"rules": "docs/rules.md", "docs/ci": "docs/ci.md"}
"""What a link to a folder leads to."""

_SHOWN = (".cmake", ".json", ".png", ".svg", ".yml")
"""Files of docs/ that are on the site as they are."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w-]*).*$", re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_ID = re.compile(r"\b[A-Z]{2}\d{3}\b")
_RULE = re.compile(r"(?<![\w\[/])(?<!\]\()([A-Z]{2}\d{3})(?![\w\]])")
"""The id of a rule that is no link yet."""
_SECTION = re.compile(r"(?<![\w.])(\d+(?:\.\d+){2,})(?!\w)")


class PageError(Exception):
    """A page says something that the site cannot show; the message names the file."""


def generate(folder: Path, source_url: str = "") -> None:
    """Writes ``zensical.toml`` and ``docs/`` into *folder*. Raises PageError.

    Links to files of the repository that are no pages lead below *source_url*, and are words without it.
    """
    site = folder / "docs"
    shutil.rmtree(site, ignore_errors=True)
    pages: dict[str, str] = {}
    for source, target in _sources().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[target] = _outside_code(text, partial(_relinked, source=source, source_url=source_url))
    for rule in all_rules().values():
        pages[f"rules/{rule.id}.md"] = rule_page(rule)
    families = {
        name: [form for form in table() if form.family == name]
        for name in dict.fromkeys(form.family for form in table())
    }
    pages["isa/index.md"] = isa_index(families)
    for name, forms in families.items():
        pages[f"isa/{name}.md"] = isa_page(name, forms)
    known = list(commands())
    pages["commands/index.md"] = commands_index(known)
    for command in known[1:]:
        pages[_command_path(command)] = command_page(command)
    for name, text in pages.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(_plain_fences(text), encoding="utf-8")
    for path in (ROOT / "docs").rglob("*"):
        if path.suffix in _SHOWN:
            copy = site / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    shutil.copyfile(Path(__file__).parent / "site.css", site / "site.css")
    config = (Path(__file__).parent / "zensical.toml").read_text(encoding="utf-8")
    nav = _toml(_navigation(pages, families, known))
    (folder / "zensical.toml").write_text(config.replace('"NAVIGATION"', nav), encoding="utf-8")


@cache
def _sources() -> Mapping[str, str]:
    """The Markdown files of the repository that are pages, and their paths on the site."""
    names = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return {name: target for name, target in _PAGES.items() if (ROOT / name).is_file()} | {
        n: n for n in names
    }


# ---------------------------------------------------------------- navigation


def _navigation(
    pages: Mapping[str, str], families: Mapping[str, list[Form]], known: list[Command]
) -> list[dict[str, object]]:
    listed = {f"docs/{name}.md" for name in (*_GUIDE, *_DEVELOPMENT, *_MEASURED, "rules")}
    others = [path[5:-3] for path in pages if path.startswith("docs/") and path not in listed]

    def docs(names: Iterable[str]) -> list[dict[str, object]]:
        paths = [f"docs/{name}.md" for name in names]
        return [{_title(pages[path]): path} for path in paths if path in pages]

    by_family: dict[str, list[Rule]] = {}
    for rule in all_rules().values():
        by_family.setdefault(rule.family, []).append(rule)
    rules = [
        {name: [{f"{r.id} {r.name}": f"rules/{r.id}.md"} for r in found]} for name, found in by_family.items()
    ]
    return [
        {"tclint": "index.md"},
        {"Guide": docs((*_GUIDE, *sorted(others)))},
        {
            "Commands": [
                {"All commands": "commands/index.md"},
                *({" ".join(command.path): _command_path(command)} for command in known[1:]),
            ]
        },
        {"Rules": [{"All rules": "docs/rules.md"}, *rules]},
        {
            "Instructions": [
                {"All families": "isa/index.md"},
                *({name.replace("_", " "): f"isa/{name}.md"} for name in families),
            ]
        },
        {"Measured": docs(_MEASURED)},
        {
            "Development": [
                *docs(_DEVELOPMENT),
                *(
                    {_title(pages[path]): path}
                    for path in _PAGES.values()
                    if path in pages and path != "index.md"
                ),
            ]
        },
    ]


def _toml(value: object) -> str:
    """Strings, lists and tables in one line of TOML, which takes strings as JSON writes them."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value)


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if found is None:
        raise PageError("a page has no title")
    return found[1].replace("`", "")


# ---------------------------------------------------------------- text


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with what is neither a code block nor code in a line changed."""
    parts, at = [], 0
    for start, end in _blocks(text):
        parts += [_outside_spans(text[at:start], change), text[start:end]]
        at = end
    return "".join([*parts, _outside_spans(text[at:], change)])


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where fenced code blocks begin and end."""
    opened: re.Match[str] | None = None
    for found in _FENCE.finditer(text):
        if opened is None:
            opened = found
        elif found[1].startswith(opened[1]) and not found[2]:
            yield opened.start(), found.end()
            opened = None
    if opened is not None:
        raise PageError(f"a code block has no end: {opened[0]}")


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    """Code in a line is kept, by placeholders: it may be the text of a link."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    changed = change(_CODE.sub(keep, text))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], changed)


def _plain_fences(text: str) -> str:
    """Code blocks with nothing after the language, as Python-Markdown wants them."""
    starts = {start for start, _ in _blocks(text)}
    return _FENCE.sub(lambda found: f"{found[1]}{found[2]}" if found.start() in starts else found[0], text)


def _relinked(text: str, source: str, source_url: str) -> str:
    """The links of a file of the repository as the site needs them."""

    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return found[0]
        path, _, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not (ROOT / wanted).exists():
            raise PageError(f"{source} links to {target}, which is not there")
        wanted = _FOLDERS.get(wanted, wanted)
        page = _sources().get(wanted) or (wanted if _is_shown(wanted) else None)
        if page is None:
            return f"[{words}]({source_url.rstrip('/')}/{wanted})" if source_url else words
        if (
            re.fullmatch(r"[\w./-]+\.md", words) and wanted in _sources()
        ):  # a reader of the site sees no files
            words = _title((ROOT / wanted).read_text(encoding="utf-8"))
        here = posixpath.dirname(_sources()[source])
        return f"[{words}]({posixpath.relpath(page, here or '.')}{'#' * bool(anchor)}{anchor})"

    return _LINK.sub(link, text)


def _is_shown(path: str) -> bool:
    """Whether a file that is not a page is on the site too."""
    folder, _, name = path.rpartition("/")
    return (folder == "rules" and name.endswith(".md")) or (
        path.startswith("docs/") and name.endswith(_SHOWN)
    )


@cache
def anchors() -> Mapping[str, str]:
    """The known anchors of the manual by section."""
    return {key: str(value) for key, value in read_toml(Path(__file__).parent / "manual.toml").items()}


def manual(section: str) -> str:
    """The URL of a section of the PTX ISA manual, or of the nearest one above it whose anchor is known."""
    while section and section not in anchors():
        section = section.rpartition(".")[0]
    return f"{MANUAL}#{anchors()[section]}" if section else MANUAL


def _cell(text: str) -> str:
    """Plain text as Markdown, also in a table."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def _code(text: str) -> str:
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


# ---------------------------------------------------------------- rules


@cache
def _mentions() -> Mapping[str, frozenset[str]]:
    """Rule -> the rules that its page names, or that name it."""
    found: dict[str, set[str]] = {id: set() for id in all_rules()}
    for id, rule in all_rules().items():
        for other in set(_ID.findall(rule.body)) & found.keys() - {id}:
            found[id].add(other)
            found[other].add(id)
    return {id: frozenset(others) for id, others in found.items()}


def rule_page(rule: Rule) -> str:
    """The page of a rule: what its front matter says, and the page, with links."""
    sections = ", ".join(f"[{section}]({manual(section)})" for section in rule.manual)
    rows = [
        ("Severity", rule.severity.label),
        ("Confidence", rule.confidence.label),
        ("Family", f"[{rule.family}](../docs/rules.md#{_slug(rule.family)})"),
        ("PTX ISA 9.1", sections),
        ("Since", f"tclint {rule.since}"),
    ]
    if rule.toolkit:
        rows.append(("CUDA toolkit", ".".join(map(str, rule.toolkit))))
    if kinds := sorted({kind for kinds in rule.confirmed_by.values() for kind in kinds}):
        observed = ", ".join(f"`{kind}`" for kind in kinds)
        rows.append(("Confirmed by", f"{observed} in [an execution](../docs/executor.md)"))
    if others := sorted(_mentions()[rule.id]):
        rows.append(("Related", "<br>".join(f"[{id}]({id}.md) {all_rules()[id].name}" for id in others)))
    rows += [
        ("In a terminal", f"`tclint explain {rule.id}`"),
        ("To leave it out", f"`--ignore {rule.id}`, or a comment `// tclint: ignore[{rule.id}] reason`"),
    ]

    def links(text: str) -> str:
        text = _RULE.sub(
            lambda found: (
                f"[{found[1]}]({found[1]}.md)"
                if found[1] in all_rules() and found[1] != rule.id
                else found[0]
            ),
            text,
        )
        return _SECTION.sub(lambda found: f"[{found[1]}]({manual(found[1])})", text)

    body = _outside_code(rule.body, links)
    return f"# {rule.id} {rule.name}\n\n{_two_columns(rows)}\n{body}"


def _two_columns(rows: Iterable[tuple[str, str]]) -> str:
    return "| | |\n|---|---|\n" + "".join(f"| {title} | {text} |\n" for title, text in rows)


def _slug(text: str) -> str:
    """The anchor of a heading, as the extension ``toc`` of Python-Markdown makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


# ---------------------------------------------------------------- instructions


def isa_index(families: Mapping[str, list[Form]]) -> str:
    """All families with their forms."""
    total = sum(map(len, families.values()))
    lines = [
        "# Instructions",
        "",
        f"The {total} instruction forms that tclint knows, as its table of the ISA has them: `tclint isa OPCODE` shows one.",
        "[The table](how-to-extend.md) says how to read and extend it. The search finds an opcode.",
        "Sections are those of PTX ISA 9.1; a link leads to the section by name, whatever its number is in the manual today.",
    ]
    for name, forms in families.items():
        links = ", ".join(f"[`{form.name}`]({name}.md#{_slug(form.name)})" for form in forms)
        lines += ["", f"## [{name.replace('_', ' ')}]({name}.md)", "", links]
    return "\n".join(lines) + "\n"


def isa_page(family: str, forms: list[Form]) -> str:
    """The forms of a family."""
    lines = [f"# {family.replace('_', ' ')}"]
    for form in forms:
        lines += ["", f"## {form.name}", "", _cell(form.summary), "", *_form(form)]
    return "\n".join(lines) + "\n"


def _form(form: Form) -> Iterator[str]:
    yield from ("```text", *(syntax.text for syntax in form.syntax), "```", "")
    rows: list[tuple[str, str]] = []
    for title, found in facts(form):
        if title in ("syntax", "example") or not found:
            continue
        cells = (
            [f"[{form.manual}]({manual(form.manual)})"]
            if title == "manual"
            else [_code(line) if title.startswith("  .") else _cell(line) for line in found]
        )
        if title:
            rows.append((_code(title.strip()) if title.startswith("  .") else title, "<br>".join(cells)))
        else:
            rows[-1] = (rows[-1][0], "<br>".join([rows[-1][1], *cells]))
    yield _two_columns(rows)
    if form.examples:
        yield from ("```ptx", *form.examples, "```")


# ---------------------------------------------------------------- commands


def _command_path(command: Command) -> str:
    return f"commands/{'-'.join(command.path[1:])}.md"


def commands_index(known: list[Command]) -> str:
    """All commands."""
    first, *others = known
    rows = "".join(
        f"| [`{' '.join(command.path)}`]({posixpath.basename(_command_path(command))}) | {_cell(command.summary)} |\n"
        for command in others
    )
    return (
        f"# Commands\n\nWhat `--help` says of each. `man tclint` has it too where the package is installed.\n\n"
        f"| command | |\n|---|---|\n{rows}\n{_options(first)}"
    )


def command_page(command: Command) -> str:
    """What ``--help`` says."""
    name = " ".join(command.path)
    paragraphs = [
        f"```text\n{paragraph.text}\n```" if paragraph.verbatim else _outside_spans(paragraph.text, _cell)
        for paragraph in command.paragraphs
    ]
    usage = f"```text\n{name} {command.usage}\n```"
    return "\n\n".join((f"# {name}", usage, *paragraphs, _options(command)))


def _options(command: Command) -> str:
    rows = "".join(
        f"| {_code(option.spelling)} | {_outside_spans(option.help, _cell)} |\n" for option in command.options
    )
    return f"## Options\n\n| option | |\n|---|---|\n{rows}"
