"""What the views of a whole input share: which kernels are shown, and how an error becomes a problem of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tclint.driver.one import Input, debug, internal_error
from tclint.findings.selection import Selected
from tclint.ir.nodes import Function, Module
from tclint.syntax.source import Problem, Source, SourceError

__all__ = ["chosen", "shown"]

S = TypeVar("S")


def chosen(module: Module, entry: tuple[str, ...]) -> list[Function]:
    """The functions with a body that match a pattern in *entry*; without one, the kernels, or all if there are none."""
    bodies = module.bodies
    if entry:
        selected = Selected(entry=entry)
        return [body for body in bodies if selected.wants(body.name)]
    return [body for body in bodies if body.entry] or bodies


def shown(
    item: Input,
    entry: tuple[str, ...],
    read: Callable[[Source, tuple[str, ...]], S],
    failed: Callable[[str, str | None, Problem], S],
) -> S:
    """What *read* makes of one input and *entry*.

    Every error becomes the problem of what *failed* makes of the path and the member, unless ``TCLINT_DEBUG`` is set.
    """
    path, source = item
    if isinstance(source, SourceError):
        return failed(path, None, Problem(source.line, str(source)))
    try:
        return read(source, entry)
    except SourceError as error:
        return failed(path, source.member, Problem(error.line, str(error)))
    except Exception as error:
        if debug():
            raise
        return failed(path, source.member, Problem(0, internal_error(error)))
