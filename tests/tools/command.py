"""The command line as tests run it: in their process, in a process forked from it, and in a new one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol

import click
from click.testing import CliRunner

from tclint.commands._cli import cli, main

TIMEOUT = 60


def invoke(*arguments: str) -> tuple[int, str]:
    """The exit code of ``tclint`` with *arguments*, and what it prints; 2 and the message of an error.

    Raises an exception of which a user would read that it is an internal error.
    """
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if result.exception is not None:
        if not isinstance(result.exception, click.ClickException):
            raise result.exception
        return 2, str(result.exception)
    return int(result.return_value), result.output


def started(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], **options: Any
) -> subprocess.CompletedProcess[str]:
    """``tclint`` in a new interpreter; *options* are those of ``subprocess.run``."""
    defaults = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": TIMEOUT}
    command = [sys.executable, "-m", "tclint", *arguments]
    return subprocess.run(command, check=False, cwd=cwd, env=env, **(defaults | options))


def forked(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """``tclint`` in a fork of this process, which has imported and prepared most of what it needs; *text* is its input.

    Raises ``subprocess.TimeoutExpired`` where it does not end.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(text.encode())
        given.seek(0)
        child = _fork()
        if not child:
            _become(arguments, cwd, env, (given, out, err))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(["tclint", *arguments], TIMEOUT)
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(
            ["tclint", *arguments], code, out.read().decode(), err.read().decode()
        )


def served(arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> tuple[int, int]:
    """``tclint`` in a fork of this process, whose input and output are a connection that it waits for.

    Its process id, which is to be waited for, and the port of 127.0.0.1.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        child = _fork()
        if not child:
            listener.settimeout(TIMEOUT)
            connection, _ = listener.accept()
            connection.settimeout(None)
            with open(os.devnull, "wb") as nowhere:
                _become(arguments, cwd, env, (connection, connection, nowhere))
    return child, port


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of xdist hold no lock of tclint
        return os.fork()


class _Stream(Protocol):
    def fileno(self) -> int: ...


def _become(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], streams: tuple[_Stream, ...]
) -> NoReturn:
    """Makes a forked process the command, and ends it."""
    code: object = 70
    variables = dict(env)  # it may be os.environ itself
    try:
        signal.alarm(TIMEOUT)
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for number, mode in enumerate("rww")
        )
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(cwd)
        warnings.resetwarnings()
        sys.argv = ["tclint", *arguments]
        main(arguments)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - no second process may return to the tests
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):  # a server closes what it writes to
                stream.flush()
        os._exit(code if isinstance(code, int) else 70)
