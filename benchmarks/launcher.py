"""Start processes and say what they took; a small program, because a child is never seen smaller than its parent.

Linux counts the memory of a process from before ``exec``, when it still is a copy of the one that started it. So
this file imports as little as it can and runs with ``python -I -S``; about 10 MB are the least that it can see.
It reads one JSON object a line, ``{"command": [...], "timeout": seconds, "output": path}``, and answers with one.
"""

import json
import os
import resource
import signal
import sys
import time

UNIT = 1 if sys.platform == "darwin" else 1024


def run(command: list[str], timeout: float, output: str) -> dict[str, object]:
    """Run *command* with its output in the file *output*, and end it and its children after *timeout* seconds."""
    began = time.monotonic()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(target, 1)
            os.dup2(target, 2)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)
    expired = False
    while True:
        pid, status, usage = os.wait4(child, 0 if expired else os.WNOHANG)
        if pid:
            break
        if time.monotonic() - began > timeout:
            expired = True
            os.killpg(child, signal.SIGKILL)
        else:
            time.sleep(0.001)
    return {
        "status": None if expired else os.waitstatus_to_exitcode(status),
        "wall": round(time.monotonic() - began, 4),
        "cpu": round(usage.ru_utime + usage.ru_stime, 4),
        "peak": usage.ru_maxrss * UNIT,
    }


def main() -> None:
    """Serve until there is no more to read."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(run(order["command"], order["timeout"], order["output"])), flush=True)


if __name__ == "__main__":
    main()
