"""The text of one module: its bytes, and the line and column of a byte offset.

Every offset in tclint is a byte offset into :attr:`Source.data`. Lines and columns are computed only for output, by
:meth:`Source.position`.
"""

from __future__ import annotations

import codecs
import errno
import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, count
from operator import add
from os import PathLike, fspath

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint._read import MAX_BYTES, read_file


class SourceError(Exception):
    """An input that cannot be read, or is not text; the message is written for the user.

    ``line`` is the 1-based line to which the message refers, or 0 for the whole input.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class Position(NamedTuple):
    """Line and column in a text, both 1-based; columns count code points, and a tab counts as one."""

    line: int
    column: int


CONTAINERS = (
    (b"\x7fELF", "an ELF file (cubin, object, library or executable)"),
    (b"\x50\xed\x55\xba", "a fatbin"),
    (b"!<arch>\n", "an archive of object files"),
    (b"MZ", "a Windows executable or library"),
)
"""The first bytes of the file formats in which PTX may be embedded, and their descriptions."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_NOT_TEXT = (
    *CONTAINERS,
    (GZIP, "a gzip file"),
    (ZSTD, "a zstd file"),
    (b"\x7fTileIR\0", "Tile IR bytecode"),
    (b"PK\x03\x04", "a zip file"),
    (b"BC\xc0\xde", "LLVM bitcode"),
)
LEXICAL = pattern(rb'"[^"\n]*"|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))', re.DOTALL)
"""A string or a comment."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PIECE = 2**20
_DECODER = codecs.getincrementaldecoder("utf-8")


class Source:
    """One PTX module as UTF-8 bytes, with the name under which it is shown. Comments may have other bytes too."""

    __slots__ = ("_line_starts", "_text", "container", "data", "member", "path")

    def __init__(
        self, data: bytes, path: str, container: str | None = None, member: str | None = None
    ) -> None:
        """Wrap ``data``, which must be valid UTF-8 apart from comments (``from_bytes`` checks that)."""
        self.data = data
        self.path = path
        self.container = container
        self.member = member
        self._text: str | None = None
        self._line_starts: Sequence[int] | None = None

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {len(self.data)} bytes)"

    @classmethod
    def read(cls, path: str | PathLike[str], limit: int = MAX_BYTES) -> Source:
        """The Source of a file of up to *limit* bytes. Raises SourceError if it cannot be read or is not text."""
        return cls.from_bytes(read_bytes(path, limit), fspath(path))

    @classmethod
    def from_bytes(
        cls, data: bytes, path: str, member: str | None = None, *, starts: Sequence[int] | None = None
    ) -> Source:
        """The Source of ``data``. Raises SourceError, naming line and byte, if ``data`` is not UTF-8 text.

        With ``member``, ``data`` is the module of that name in a container, which ``path`` names. ``starts`` are the
        offsets at which its lines begin, if they are known.

        PTX is ASCII (PTX ISA 4.1); UTF-8 is accepted because comments and names of source files contain it. In comments,
        ptxas accepts any byte but NUL. A byte order mark is dropped, and so are NUL bytes at the end: NVRTC counts the
        terminating one as part of its result.
        """
        for magic, kind in _NOT_TEXT:
            if data.startswith(magic):
                raise SourceError(f"no PTX in it: it is {kind}")
        if data.startswith(_UTF16):
            raise SourceError("is UTF-16 text; PTX must be ASCII or UTF-8", 1)
        given, data = len(data), data.removeprefix(BYTE_ORDER_MARK).rstrip(b"\0")
        if (nul := data.find(b"\0")) >= 0:
            line = _line_of(data, nul)
            raise SourceError(f"is binary, not PTX text: byte {nul} (line {line}) is NUL", line)
        if not data.isascii() and not _is_utf8(data):
            _refuse_outside_comments(data)
        source = cls(data, path, None if member is None else path, member)
        if len(data) == given:
            source._line_starts = starts
        return source

    @property
    def text(self) -> str:
        """The whole text, with U+FFFD for what is not UTF-8. Offsets do not index it unless it is ASCII."""
        if self._text is None:
            self._text = self.data.decode(errors="replace")
        return self._text

    @property
    def sha256(self) -> str:
        """The digest of the data."""
        from hashlib import sha256

        return sha256(self.data).hexdigest()

    @property
    def line_count(self) -> int:
        """The number of lines, including an empty one after a final line feed, as in an editor."""
        return len(self._starts())

    def position(self, offset: int) -> Position:
        """Line and column of a byte offset; the end of the data is the position after the last character.

        Raises ValueError for an offset outside the data.
        """
        if not 0 <= offset <= len(self.data):
            raise ValueError(f"offset {offset} is outside {self!r}")
        starts = self._starts()
        line = bisect_right(starts, offset)
        before = self.data[starts[line - 1] : offset]
        # An offset inside a character belongs to that character; its first bytes decode to nothing yet.
        width = len(before) if before.isascii() else len(_DECODER("replace").decode(before))
        return Position(line, width + 1)

    def line_text(self, line: int) -> str:
        """The text of a 1-based line without its line end. Raises IndexError if there is no such line."""
        starts = self._starts()
        if not 1 <= line <= len(starts):
            raise IndexError(f"line {line} is outside {self!r}")
        end = starts[line] if line < len(starts) else len(self.data)
        return self.data[starts[line - 1] : end].rstrip(b"\r\n").decode(errors="replace")

    def _starts(self) -> Sequence[int]:
        if self._line_starts is None:
            lengths = map(len, self.data.split(b"\n"))
            starts = array("q", map(add, accumulate(lengths, initial=0), count()))  # a line feed each
            starts.pop()
            self._line_starts = starts
        return self._line_starts


def read_bytes(path: str | PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """The contents of a file of up to *limit* bytes. Raises SourceError if it cannot be read or is larger."""
    try:
        return read_file(path, limit, special=True)
    except IsADirectoryError:
        raise SourceError("is a directory, not a file") from None
    except FileNotFoundError:
        raise SourceError("no such file or directory") from None
    except OSError as error:
        raise unreadable(error) from None
    except ValueError as error:  # a NUL in the name
        raise SourceError(f"cannot be read: {error}") from None


def unreadable(error: OSError) -> SourceError:
    """The error for an input that cannot be read, or not within the limit on its size."""
    if error.errno == errno.EFBIG:
        return SourceError(f"is too large: {error.strerror}, the limit of max-input")
    return SourceError(f"cannot be read: {error.strerror or error}")


def _is_utf8(data: bytes) -> bool:
    """Whether *data* is UTF-8. A whole text as a string may take four times its bytes, so it is decoded in pieces."""
    decoder = _DECODER()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_outside_comments(data: bytes) -> None:
    """Raise SourceError if bytes of *data* outside its comments are not UTF-8."""
    rest = bytearray(data)
    for found in LEXICAL.finditer(data):
        if found["comment"]:
            rest[found.start() : found.end()] = b" " * len(found["comment"])
    try:
        rest.decode()
    except UnicodeDecodeError as error:
        line = _line_of(data, error.start)
        message = f"is not UTF-8 text: byte {error.start} (line {line}) is 0x{data[error.start]:02x}"
        raise SourceError(message, line) from None


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an input, or a part of it, could not be analysed. ``line`` is 0 if the whole input is meant."""

    line: int
    message: str
