"""Ending of processes that may have started others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

__all__ = ["kill"]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that was started in a session of its own, if it still runs, and those that it has started."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
