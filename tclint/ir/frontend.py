"""From the bytes of a module to its IR and its problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tclint._pattern import pattern
from tclint.ir.nodes import BuildError, Module
from tclint.ir.operands import quoted
from tclint.ir.rebuild import Builds
from tclint.isa.target import INTRODUCED, NEWEST, TARGETS, Target, dotted, exists
from tclint.syntax import SyntaxProblem, first_item, problems, statements
from tclint.syntax.source import Problem, Source

__all__ = ["analyse"]


def analyse(source: Source, builds: Builds | None = None) -> tuple[Module, list[Problem]]:
    """The module in *source*, and its problems: syntax errors, a missing header, and everything the assembler rejects.

    *builds* keeps the earlier states of an edited text, so that only the edited part is rebuilt.
    """
    tree, module = (builds or Builds()).build(source.data)
    broken = problems(tree)

    def at(offset: int, message: str) -> Problem:
        return Problem(source.position(offset).line, message)

    def misread(directive: bytes) -> bool:
        return any(source.data.startswith(directive, problem.start_byte) for problem in broken)

    found = [at(p.start_byte, p.message + _without_end(source, p.function)) for p in broken]
    if not found and not module.functions and module.version is None and not module.variables:
        found.append(Problem(1, "contains no PTX (no .version directive, no function)"))
        return module, found
    if module.version is None and module.version_span[1]:
        message = f".version must be two numbers, such as {dotted(NEWEST)}"
        found.append(at(module.version_span[0], message))
    elif module.version is None and not misread(b".version"):
        found.append(at(first_item(tree), ".version is missing: it must be the first directive"))
    elif module.version is not None and module.version <= NEWEST and not exists(module.version):
        message = f"unknown .version {dotted(module.version)}; the newest known one is {dotted(NEWEST)}"
        found.append(at(module.version_span[0], message))
    if not module.targets and not misread(b".target"):
        found.append(
            at(
                module.version_span[1] if module.version else first_item(tree),
                ".target is missing: it must follow .version",
            )
        )
    found += [at(module.target_span[0], message) for message in _unknown_targets(module)]
    consequence = _Consequences(source.data, broken)
    inside = [(function.start, function.end) for function in module.functions]
    outside = (p.start_byte for p in broken if not any(low <= p.start_byte < high for low, high in inside))
    end = min(outside, default=len(source.data))  # after it, statements of a function may be outside of one
    found += [at(e.start, e.message) for e in module.errors if e.start <= end and not consequence(e, 0)]
    for function in module.functions:
        start = function.start
        for error in function.errors:
            if not consequence(error, start):
                found.append(at(start + error.start, f"{function.name}: {error.message}"))
    if broken:
        found.sort(key=lambda problem: problem.line)
    return module, found


class _Consequences:
    """Whether an error only follows from a syntax error: one in what is left of a broken statement, or of a name
    that a broken declaration or label would have declared."""

    def __init__(self, data: bytes, broken: Sequence[SyntaxProblem]) -> None:
        self._broken = statements(data, broken) if broken else []
        self._lost: set[str] = set()
        for problem, (start, end) in zip(broken, self._broken, strict=True):
            wrong, whole = (
                data[a:b].decode("latin-1").strip() for a, b in ((problem.start_byte, end), (start, end))
            )
            if wrong.startswith(".") or whole.startswith("."):
                names = _NAME.findall(whole)
                self._lost.update(name.rstrip(_DIGITS) for name in names)
                self._lost.update(quoted(name).rstrip("…") for name in names)
            else:
                self._lost.update(_LABEL.findall(wrong))

    def __call__(self, error: BuildError, base: int) -> bool:
        start, end = base + error.start, base + error.end
        if any(low < end and start < high for low, high in self._broken):
            return True
        names = _NAME.findall(error.message) if self._lost and error.kind.startswith("undefined") else ()
        return any(name in self._lost or name.rstrip(_DIGITS) in self._lost for name in names)


def _without_end(source: Source, function: int) -> str:
    """A note for an error at the end of the text: where the unclosed *function* begins; empty if it is -1 (none)."""
    if function < 0:
        return ""
    end = len(source.data.rstrip(b"\0").rstrip())
    first, last = source.position(function).line, source.position(end).line
    return f" (the function begins at line {first}, the file ends at line {last})"


def _unknown_targets(module: Module) -> Iterator[str]:
    """A message for each name in ``.target`` that is neither a target nor an option, with what was probably meant."""
    for name in module.targets:
        if Target.parse(name) is not None or name in _TARGET_OPTIONS:
            continue
        near = _similar_target(name)
        newest = f"the newest known ones are {', '.join(_newest_targets())}"
        yield f"unknown target {name}; {f'did you mean {near}?' if near else newest}"


def _similar_target(name: str) -> str:
    """The target or option that was probably meant by *name*: of two options the more common one; empty if none is
    similar. A number that is between two targets is that of the lower one."""
    options = [option for option in sorted(_TARGET_OPTIONS, reverse=True) if option.startswith(name)]
    number = _NUMBERED.fullmatch(name)
    if options or number is None:
        return next(iter(options), "")
    known = [target for target in TARGETS if target.number <= int(number[1])]
    exact = [target for target in known if str(target) == f"sm_{number[1]}{number[2].lower()}"]
    lower = [target for target in known if not target.suffix]
    least = exact or lower[-1:]
    return str(least[0]) if least and int(number[1]) <= TARGETS[-1].number else ""


def _newest_targets() -> list[str]:
    """The targets that the newest of all ``.version``s with a new target introduced."""
    newest = max(INTRODUCED.values())
    return [name for name, version in INTRODUCED.items() if version == newest]


_NAME = pattern(r"[\w$%]+")
_LABEL = pattern(r"^\$[\w$]+")
_DIGITS = "0123456789"
_NUMBERED = pattern(r"(?:[sS][mM]|compute)?[_-]?(\d{2,3})(\w?)")
_TARGET_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"))
