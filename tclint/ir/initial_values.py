"""Initial values that ptxas rejects (PTX ISA 5.4.4): of another kind than the variable, or addresses of what has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tclint._pattern import pattern
from tclint.ir.nodes import DECIMAL, Module, Variable
from tclint.ir.operands import only_short_integers

__all__ = ["faults"]

_FLOAT = rf"0[fF][\da-fA-F]{{8}}|0[dD][\da-fA-F]{{16}}|{DECIMAL}"
_FLOATS = pattern(rf"(?<![\w$.%])(?:{_FLOAT})(?![\w$])")
_INTEGERS = pattern(r"(?<![\w$.%])(?<![eE][-+])(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)U?(?![\w$.])")
_ADDRESS = pattern(r"(0[xX][\da-fA-F]+\s*\(\s*)?(generic\s*\(\s*)?(?<![\w$%.])([A-Za-z_$%][\w$]*)")
_WORDS = frozenset(("generic", "WARP_SZ"))
_SPACES = (".global", ".const")


def faults(variable: Variable, module: Module, first: Mapping[str, int]) -> Iterator[str]:
    """The names of the features (``features.toml``) that an initial value of *module* has and ptxas rejects.

    *first* are the functions and variables that are declared before.
    """
    text, type_ = variable.initial, variable.type
    if type_[1:2] != "f" and only_short_integers(text):
        return
    if type_[1:2] in "us" and _FLOATS.search(text):
        yield "floating-point initial value of an integer"
    elif type_[1:2] == "f" and _INTEGERS.search(text):
        yield "integer initial value of a floating-point variable"
    if type_[2:].isdigit():
        yield from dict.fromkeys(_of_addresses(text, type_, module, first))


def _of_addresses(text: str, type_: str, module: Module, first: Mapping[str, int]) -> Iterator[str]:
    for mask, generic, name in _ADDRESS.findall(text):
        if name in _WORDS:
            continue
        variable = module.variables.get(name)
        if name not in first:
            yield "unknown name in an initial value"
        elif variable is None and generic:
            yield "generic() of a function"
        elif variable is not None and variable.space not in _SPACES:
            yield "address of a variable outside .global and .const in an initial value"
        elif type_ not in ((".u8", ".u32", ".u64")[not mask :]):
            yield "address in a variable that holds none"
