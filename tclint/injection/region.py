"""``tclint.capture``: record a launch inside a running Python program."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tclint._dataclass import dataclass
from tclint.injection.build import cupti_libraries, injection_library
from tclint.injection.program import LIMIT, SECONDS, Captured, Wanted, complete, scratch

__all__ = ["RecordedRegion", "capture"]


@dataclass
class RecordedRegion:
    """What the block has recorded, once it has ended."""

    captured: Captured | None = None

    @property
    def kernel(self) -> str:
        """The name of the recorded kernel; empty in the block."""
        return str(self.captured.launch["kernel"]) if self.captured else ""

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be recorded of the launch."""
        return self.captured.problems if self.captured else ()


@contextmanager
def capture(
    name: str | os.PathLike[str],
    *,
    kernel: str = "*",
    nth: int = 1,
    limit: int = LIMIT,
    seconds: float = SECONDS,
) -> Iterator[RecordedRegion]:
    """Record launch number *nth* of the kernels that match the glob *kernel* in a ``with`` block to the folder *name*.

    The options are those of ``tclint capture``: *limit* is in bytes, and a launch that takes longer than *seconds* is
    recorded without results. The driver reports only modules that it loads from the first block on, so the PTX of a
    kernel that was launched before is looked for by the name of the kernel. Raises
    :class:`~tclint.injection.build.CaptureError` if nothing can be recorded, or if no such launch was recorded by the
    end of the block.
    """
    folder, wanted = Path(name), Wanted(kernel, nth, limit, seconds)
    path = injection_library()
    temporary = scratch(folder)
    region = RecordedRegion()
    library = ctypes.CDLL(str(path))
    library.tclint_begin.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_double, ctypes.c_char_p,
    ]  # fmt: skip
    try:
        libraries = ":".join(cupti_libraries()).encode()
        missing = library.tclint_begin(
            os.fsencode(temporary), kernel.encode(), nth, limit, seconds, libraries
        )
        try:
            if not missing:
                yield region
        finally:
            library.tclint_end()
        region.captured = complete(temporary, folder, wanted, dict(os.environ))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
