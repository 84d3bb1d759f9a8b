"""The names that C++ functions have in their source, from their mangled names (Itanium C++ ABI, 5.1).

Covers what kernels are called: namespaces, classes, template arguments that are types, numbers or names, packs, functions
local to others, lambdas. A name with anything else, such as an expression among its template arguments, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from tclint._pattern import pattern

__all__ = ["source_name"]

_MAX_NAME = 20_000
"""Characters of a name, mangled or not; substitutions may double the second at each step."""
_MAX_DEPTH = 100
_BUILTIN = dict(
    pair.split("=")
    for pair in """v=void w=wchar_t b=bool c=char a=signed~char h=unsigned~char s=short t=unsigned~short i=int
    j=unsigned~int l=long m=unsigned~long x=long~long y=unsigned~long~long n=__int128 o=unsigned~__int128 f=float
    d=double e=long~double g=__float128 z=...""".split()
)
_EXTENDED = {
    "Dn": "std::nullptr_t",
    "Di": "char32_t",
    "Ds": "char16_t",
    "Du": "char8_t",
    "Dh": "half",
    "DF16_": "_Float16",
    "DF16b": "std::bfloat16_t",
}
_STANDARD = {
    "St": "std",
    "Sa": "std::allocator",
    "Sb": "std::basic_string",
    "Ss": "std::string",
    "Si": "std::istream",
    "So": "std::ostream",
    "Sd": "std::iostream",
}
_OPERATORS = {
    word[:2]: word[2:]
    for word in """nwnew dldelete ps+ ng- ad& de* co~ pl+ mi- ml* dv/ rm% an& or| eo^ aS= pL+= mI-= mL*= dV/= rM%= ls<<
    rs>> eq== ne!= lt< gt> le<= ge>= ss<=> nt! aa&& oo|| pp++ mm-- cm, pt-> cl() ix[]""".split()
}
_SUFFIXES = {"P": "*", "R": "&", "O": "&&"}
_QUALIFIERS = {"K": "const", "V": "volatile", "r": "__restrict__"}
_NUMBER = pattern(r"\d{1,4}")
_SEQUENCE = pattern(r"S([0-9A-Z]{0,6})_")
_PARAMETER = pattern(r"T(\d{0,4})_")
_LITERAL = pattern(r"(n?)(\d{0,40})E")
_ORDINAL = pattern(r"(\d{0,4})_")
_DISCRIMINATOR = pattern(r"_\d|__\d{1,4}_")
_ANONYMOUS = "_GLOBAL__N_"


@lru_cache(maxsize=1024)
def source_name(mangled: str) -> str:
    """The name in the source, with template arguments and without parameters: ``ns::gemm<float, 128>``.

    A name that is not mangled, or of which a part is not understood, is returned as it is.
    """
    if not mangled.startswith("_Z") or len(mangled) > _MAX_NAME:
        return mangled
    try:
        return _Reader(mangled).encoding()
    except (_Unknown, IndexError, KeyError, ValueError, RecursionError):
        return mangled


class _Unknown(Exception):
    """A part of a name is not understood."""


class _Reader:
    """A recursive descent over one mangled name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 2
        self.depth = 0
        self.inner = 0
        """How many types and template arguments contain what is read; those of an outer name have no own parameters."""
        self.known: list[str] = []
        """What ``S_``, ``S0_`` ... stand for."""
        self.arguments: list[str] = []
        """What ``T_``, ``T0_`` ... stand for."""

    # ------------------------------------------------------------ text

    def _took(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise _Unknown

    def _matched(self, form: re.Pattern[str]) -> tuple[str, ...]:
        found = form.match(self.text, self.at)
        if found is None:
            raise _Unknown
        self.at = found.end()
        return tuple(found.groups()) or (found[0],)

    def _keep(self, name: str) -> str:
        """*name*, which a later substitution may stand for."""
        if len(name) > _MAX_NAME:
            raise _Unknown
        self.known.append(name)
        return name

    def _deeper(self, read: Callable[[], str]) -> str:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _Unknown
        found = read()
        self.depth -= 1
        return found

    def _inside(self, read: Callable[[], str]) -> str:
        self.inner += 1
        found = self._deeper(read)
        self.inner -= 1
        return found

    # ------------------------------------------------------------ names

    def encoding(self) -> str:
        """A function or variable; what follows its name, the types of its parameters, is not read."""
        return self._deeper(self._name)

    def _name(self) -> str:
        if self._took("N"):
            return self._nested()
        if self._took("Z"):
            return self._local()
        if self.text[self.at] == "S" and not self.text.startswith("St", self.at):
            name = self._substitution()
        else:
            name = ("std::" if self._took("St") else "") + self._unqualified()
            if self.text[self.at : self.at + 1] != "I":
                return name
            self._keep(name)
        return name + self._template_arguments() if self.text[self.at : self.at + 1] == "I" else name

    def _nested(self) -> str:
        while self.text[self.at] in "rVKRO":
            self.at += 1
        name = ""
        while not self._took("E"):
            letter = self.text[self.at]
            if letter == "I":
                name += self._template_arguments()
            elif letter == "S" and not name:
                name = self._substitution()
                continue
            elif letter == "T" and not name:
                name = self._template_parameter()
            else:
                own = self._unqualified(name)
                name = f"{name}::{own}" if name else own
            if self.text[self.at] != "E":
                self._keep(name)
        return name

    def _local(self) -> str:
        """An entity in a function, of which the parameters have to be read."""
        function = self._deeper(self._name)
        while not self._took("E"):
            self._type()
        if self._took("s"):
            return f"{function}::string literal"
        if self._took("d"):
            raise _Unknown
        name = self._deeper(self._name)
        if found := _DISCRIMINATOR.match(self.text, self.at):
            self.at = found.end()
        return f"{function}::{name}"

    def _unqualified(self, owner: str = "") -> str:
        """A name without its namespaces. That of a constructor is the one of its *owner*."""
        self._took("L")  # internal linkage
        letter, pair = self.text[self.at], self.text[self.at : self.at + 2]
        if letter.isdigit():
            name = self._identifier()
        elif pair in ("Ul", "Ut"):
            self.at += 2
            while letter == "U" and pair == "Ul" and not self._took("E"):
                self._type()
            number = self._matched(_ORDINAL)[0]
            name = f"{{{'lambda' if pair == 'Ul' else 'unnamed type'}#{int(number) + 2 if number else 1}}}"
        elif letter in "CD" and pair[1:].isdigit() and owner:
            self.at += 2
            last = owner.partition("<")[0].rpartition("::")[2]
            name = ("~" if letter == "D" else "") + last
        elif pair == "cv":
            self.at += 2
            name = f"operator {self._type()}"
        else:
            self.at += 2
            symbol = _OPERATORS[pair]
            name = f"operator{' ' if symbol[0].isalpha() else ''}{symbol}"
        while self._took("B"):
            name += f"[abi:{self._identifier()}]"
        return name

    def _identifier(self) -> str:
        size = int(self._matched(_NUMBER)[0])
        name = self.text[self.at : self.at + size]
        if len(name) < size or not size:
            raise _Unknown
        self.at += size
        return "(anonymous namespace)" if name.startswith(_ANONYMOUS) else name

    def _substitution(self) -> str:
        pair = self.text[self.at : self.at + 2]
        if pair in _STANDARD:
            self.at += 2
            name = _STANDARD[pair]
            if pair == "St":
                name = f"std::{self._unqualified()}"
                self._keep(name)
            return name
        number = self._matched(_SEQUENCE)[0]
        return self.known[int(number, 36) + 1 if number else 0]

    # ------------------------------------------------------------ templates and types

    def _template_arguments(self) -> str:
        self._expect("I")
        outermost = not self.inner
        found: list[str] = []
        while not self._took("E"):
            found.append(self._inside(self._argument))
        if outermost:
            self.arguments = found
        return f"<{', '.join(filter(None, found))}>"

    def _argument(self) -> str:
        if self._took("J"):
            pack = []
            while not self._took("E"):
                pack.append(self._inside(self._argument))
            return ", ".join(filter(None, pack))
        if self._took("XadL_Z"):
            name = self._entity()
            self._expect("E")
            return f"&{name}"
        if not self._took("L"):
            return self._type()
        if self._took("_Z"):
            return self._entity()
        kind = self._type()
        sign, digits = self._matched(_LITERAL)
        if kind == "bool":
            return {"0": "false", "1": "true"}[digits]
        number = f"{'-' if sign else ''}{digits}"
        return number if kind in _BUILTIN.values() or "~" in kind or " " in kind else f"({kind}){number}"

    def _entity(self) -> str:
        """A function or variable as an argument."""
        name = self.encoding()
        while not self._took("E"):
            self._type()
        return name

    def _template_parameter(self) -> str:
        number = self._matched(_PARAMETER)[0]
        return self.arguments[int(number) + 1 if number else 0]

    def _type(self) -> str:
        return self._inside(self._read_type)

    def _read_type(self) -> str:
        letter = self.text[self.at]
        if letter in _BUILTIN:
            self.at += 1
            return _BUILTIN[letter].replace("~", " ")
        for code, name in _EXTENDED.items():
            if self._took(code):
                return name
        if letter in _QUALIFIERS:
            words = ""
            while (letter := self.text[self.at]) in _QUALIFIERS:
                words = f" {_QUALIFIERS[letter]}{words}"
                self.at += 1
            return self._keep(self._type() + words)
        if letter in _SUFFIXES:
            self.at += 1
            return self._keep(_pointed(self._type(), _SUFFIXES[letter]))
        if letter in "AF":
            return self._keep(self._array() if letter == "A" else self._function())
        if letter == "S" and not self.text.startswith("St", self.at):
            name = self._substitution()
        elif letter == "T":
            name = self._keep(self._template_parameter())
        elif letter == "D" and self._took("Dp"):
            return self._keep(self._type())
        elif letter in "NZ":
            return self._keep(self._name())
        elif letter.isdigit() or letter == "S":
            name = self._keep(("std::" if self._took("St") else "") + self._unqualified())
        else:
            raise _Unknown
        if self.text[self.at : self.at + 1] == "I":
            return self._keep(name + self._template_arguments())
        return name

    def _array(self) -> str:
        self._expect("A")
        size = self._matched(_NUMBER)[0] if self.text[self.at].isdigit() else ""
        self._expect("_")
        return f"{self._type()} [{size}]"

    def _function(self) -> str:
        self._expect("F")
        self._took("Y")
        result, parameters = self._type(), []
        while not self._took("E"):
            parameters.append(self._type())
        return f"{result} ({', '.join(p for p in parameters if p != 'void')})"


def _pointed(kind: str, mark: str) -> str:
    """A pointer or reference to a *kind*; of a reference to a reference, the inner one remains."""
    if mark[0] == "&" and kind.endswith("&"):
        return kind[:-1] if kind.endswith("&&") and mark == "&" else kind
    if kind.endswith(")") and " (" in kind and not kind.endswith("namespace)"):
        result, _, parameters = kind.partition(" (")
        return f"{result} ({mark})({parameters}"
    if kind.endswith("]") and " [" in kind:
        element, _, size = kind.rpartition(" [")
        return f"{element} ({mark}) [{size}"
    return f"{kind}{mark}"
