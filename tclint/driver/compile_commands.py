"""The arguments of nvcc in a ``compile_commands.json``, as CMake, Meson and Bear write it.

The file may be a stranger's, so no program that it names is run, and of the arguments only those are taken that decide what
device code is made: none of them runs a program or writes a file.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence

from tclint._named_tuple import NamedTuple
from tclint._read import read_file
from tclint.inline.hosts import CPP
from tclint.syntax.source import SourceError

__all__ = ["NAME", "Call", "calls", "nearest"]

NAME = "compile_commands.json"
_BESIDE = ("", "build")
"""Where a project has the file."""
_VALUED = frozenset(
    "-I --include-path -isystem --system-include -D --define-macro -U --undefine-macro -include --pre-include -std --std"
    " -arch --gpu-architecture -code --gpu-code -gencode --generate-code -O --optimize -maxrregcount --maxrregcount"
    " -fmad --fmad -ftz --ftz -prec-div --prec-div -prec-sqrt --prec-sqrt -rdc --relocatable-device-code -x --x -m --machine"
    " -default-stream --default-stream -diag-suppress --diag-suppress".split()
)
_JOINED = ("-I", "-D", "-U", "-O", "-m32", "-m64")
_FLAGS = frozenset(
    "-G --device-debug -lineinfo --generate-line-info -use_fast_math --use_fast_math -restrict --restrict -w"
    " -extra-device-vectorization --extra-device-vectorization -expt-relaxed-constexpr --expt-relaxed-constexpr"
    " -expt-extended-lambda --expt-extended-lambda -extended-lambda --extended-lambda"
    " -allow-unsupported-compiler --allow-unsupported-compiler".split()
)
_FILES = frozenset(("-optf", "--options-file"))
"""Options whose value is a file of more options."""


class Call(NamedTuple):
    """How a source is compiled."""

    folder: str
    arguments: tuple[str, ...]


def nearest(path: str) -> str | None:
    """The file that describes the compilation of a source: in its folder or above it, there or in ``build``."""
    above = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    while True:
        for part in _BESIDE:
            if os.path.isfile(found := os.path.join(above, part, NAME)):
                return found
        above, below = os.path.dirname(above), above
        if above == below:
            return None


def calls(path: str) -> dict[str, Call]:
    """Real path of each source that nvcc compiles -> the call, the first one of several. Raises SourceError."""
    try:
        entries = json.loads(read_file(path))
        found: dict[str, Call] = {}
        for entry in entries:
            words = entry.get("arguments") or shlex.split(entry["command"])
            folder = os.path.join(os.path.dirname(os.path.abspath(path)), entry["directory"])
            source = os.path.realpath(os.path.join(folder, entry["file"]))
            begin = next((at for at, word in enumerate(words) if _is_nvcc(word)), None)
            if begin is not None and source.lower().endswith(CPP):
                found.setdefault(source, Call(folder, tuple(_taken(words[begin + 1 :], folder))))
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SourceError("is not a list of compilations as CMake writes it") from None
    return found


def _is_nvcc(word: str) -> bool:
    return os.path.splitext(os.path.basename(word.replace("\\", "/")))[0] == "nvcc"


def _taken(words: Sequence[str], folder: str, nested: bool = False) -> Iterator[str]:
    """Those of the arguments that decide what device code is made. Raises OSError and ValueError."""
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _FILES and not nested:
            options = read_file(os.path.join(folder, value if equals else next(left, "")))
            yield from _taken(shlex.split(options.decode()), folder, nested=True)
        elif name in _VALUED and not equals:
            yield from (word, next(left, ""))
        elif name in _VALUED or word in _FLAGS or word.startswith(_JOINED):
            yield word
