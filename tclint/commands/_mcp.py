"""The tools of ``tclint mcp``: each call runs a command of tclint in a process of its own, with limits.

The process gets a copy of the kernel, in a folder of its own, and options that this module writes; a call chooses values
only. Its result is the JSON that the command writes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from tclint._read import read_file, size_words
from tclint._version import __version__
from tclint.driver.processes import kill
from tclint.report.formats._style import shortened

__all__ = ["Tools", "serve"]

_MAX_OUTPUT = 32 * 2**20
"""Bytes of a result."""
_MAX_PROCESSES = 4
"""Calls that are executed at the same time; further ones wait, within their limit of time."""
_MAX_MESSAGE = 2000
"""Characters of an error message."""
_POLL_SECONDS = 0.05

KernelPath = Annotated[
    str | None, Field(description="A file below a root: PTX, CUDA C++, Python, or a container with PTX.")
]
KernelText = Annotated[str | None, Field(description="The PTX itself, instead of a path.")]
Entry = Annotated[str | None, Field(description="The name of the kernel, if there are several.")]


class Tools:
    """What clients call. *roots* are the folders with the files that calls may name."""

    def __init__(self, roots: Iterable[str], seconds: float, limit: int) -> None:
        """*seconds* and *limit*, in bytes of an input, bound each call."""
        self._roots = [Path(os.path.realpath(root)) for root in roots]
        self._seconds, self._limit = seconds, limit
        self._slots = asyncio.Semaphore(_MAX_PROCESSES)

    async def check(
        self,
        path: KernelPath = None,
        text: KernelText = None,
        select: Annotated[
            list[str] | None, Field(description="Rules to check: ids, names, families, prefixes.")
        ] = None,
        pedantic: Annotated[bool, Field(description="Also report findings of low confidence.")] = False,
        verdict: Annotated[bool, Field(description="Also state what is proved of each kernel.")] = False,
    ) -> CallToolResult:
        """Lint a kernel. The result follows docs/check.schema.json: findings with place, cause and fix, and an outcome."""
        options = [f"--select={rule}" for rule in select or ()]
        options += ["--pedantic"] * pedantic + ["--verdict"] * verdict
        common = ("--isolated", "--no-cache", "--jobs=1", *self._max_input(), "--output-format=json")
        return await self._called("check", [*common, *options], self._kernel(path, text))

    async def explain(
        self, rules: Annotated[list[str], Field(description="Ids or names, such as WG001.", min_length=1)]
    ) -> CallToolResult:
        """Show what rules find, why it is wrong, and how to correct it."""
        return await self._called("explain", ["--output-format=json"], None, rules)

    async def hang(
        self,
        at: Annotated[
            list[str],
            Field(
                description="Where threads are: lines of the PTX (72), of its source (kernel.cu:41), with a number of warps"
                " (72x4) or for one warp of a CTA (0:3=72).",
                min_length=1,
            ),
        ],
        path: KernelPath = None,
        text: KernelText = None,
        entry: Entry = None,
    ) -> CallToolResult:
        """Explain a hang from where its threads are. The result follows docs/hang.schema.json."""
        options = [f"--at={position}" for position in at] + self._entry(entry)
        return await self._called(
            "hang", [*options, *self._max_input(), "--output-format=json"], self._kernel(path, text)
        )

    async def run(
        self,
        path: KernelPath = None,
        text: KernelText = None,
        launch: Annotated[
            str | None,
            Field(description="A folder of tclint capture below a root; otherwise a launch is assumed."),
        ] = None,
        entry: Entry = None,
        schedule: Annotated[
            str, Field(description="When asynchronous operations complete: eager, lazy or random:SEED.")
        ] = "lazy",
    ) -> CallToolResult:
        """Execute a kernel on the CPU and report violations that a GPU executes silently (docs/executor.md)."""
        seconds = max(self._seconds / 2, 0.1)  # it ends by itself first, and reports how far it came
        options = [f"--schedule={schedule}", f"--seconds={seconds}", *self._entry(entry)]
        if launch is not None:
            options.append(f"--launch={self._recording(launch)}")
        return await self._called(
            "run", [*options, *self._max_input(), "--output-format=json"], self._kernel(path, text)
        )

    # ---------------------------------------------------------------- inputs

    def _max_input(self) -> list[str]:
        return [f"--max-input={max(self._limit >> 20, 1)}"]

    def _entry(self, entry: str | None) -> list[str]:
        return [] if entry is None else [f"--entry={entry}"]

    def _kernel(self, path: str | None, text: str | None) -> tuple[str, bytes]:
        """The name and the contents of the kernel of a call. Raises ToolError."""
        if (path is None) == (text is None):
            raise ToolError("pass either path or text")
        if path is None:
            data = (text or "").encode("utf-8", "surrogatepass")
            if len(data) > self._limit:
                raise ToolError(f"text: it has more than {size_words(self._limit)}, the limit of --max-input")
            return "kernel.ptx", data
        found = self._allowed(path)
        try:
            return found.name, read_file(found, self._limit)
        except (OSError, ValueError) as error:
            raise ToolError(f"{path}: {getattr(error, 'strerror', None) or error}") from None

    def _allowed(self, path: str) -> Path:
        """The file or folder at *path* with links followed. Raises ToolError if it is not below a root.

        A relative path is below the first root that has it.
        """
        for root in self._roots:
            try:
                found = Path(os.path.realpath(root / path))
            except (OSError, ValueError):  # a NUL in the name
                continue
            if found.is_relative_to(root) and found.exists():
                return found
        raise ToolError(f"{path}: there is no such file below a root")

    def _recording(self, path: str) -> Path:
        """The folder of a recorded launch all of whose files are below a root. Raises ToolError."""
        folder = self._allowed(path)
        if not folder.is_dir():
            raise ToolError(f"{path}: it is not a folder of tclint capture")
        for file in folder.iterdir():
            self._allowed(str(file))
        return folder

    # ---------------------------------------------------------------- processes

    async def _called(
        self,
        name: str,
        options: Sequence[str],
        kernel: tuple[str, bytes] | None,
        arguments: Sequence[str] = (),
    ) -> CallToolResult:
        """The result of a command on *kernel*, its name and contents, or on *arguments*. Raises ToolError."""
        with TemporaryDirectory(prefix="tclint-", ignore_cleanup_errors=True) as folder:
            if kernel is not None:
                # Below the folder in which the process runs: Python would import modules from that folder.
                inside = Path(folder, "input")
                inside.mkdir()
                (inside / kernel[0]).write_bytes(kernel[1])
                arguments = (f"input/{kernel[0]}",)
            command = (sys.executable, "-m", "tclint", name, *options, "--", *arguments)
            if any("\0" in word for word in command):
                raise ToolError("a NUL character in an argument")
            output, errors = await self._executed(command, folder)
        try:
            document = json.loads(output)
        except ValueError:
            words = " ".join(errors.decode(errors="replace").split()).rpartition("Error: ")[2]
            raise ToolError(shortened(words, _MAX_MESSAGE) or "no result") from None
        if not isinstance(document, dict):
            document = {"rules": document}
        content = TextContent(type="text", text=json.dumps(document))
        return CallToolResult(content=[content], structured_content=document)

    async def _executed(self, command: Sequence[str], folder: str) -> tuple[bytes, bytes]:
        """What a process writes to its two outputs. It is killed at the limits. Raises ToolError."""
        deadline = monotonic() + self._seconds
        outputs = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        try:
            await asyncio.wait_for(self._slots.acquire(), self._seconds)
        except asyncio.TimeoutError:
            raise ToolError("the server is busy with other calls") from None
        try:
            process = _started(command, folder, outputs)
            try:
                await self._ended(process, outputs, deadline)
            finally:
                kill(process)
            if process.returncode < 0:
                raise ToolError(f"no result: signal {-process.returncode} ended tclint")
            return read_file(outputs[0], _MAX_OUTPUT), read_file(outputs[1], _MAX_OUTPUT)
        except OSError as error:
            raise ToolError(f"tclint cannot be run: {error.strerror or error}") from None
        finally:
            self._slots.release()

    async def _ended(self, process: subprocess.Popen[bytes], outputs: Iterable[str], deadline: float) -> None:
        """Waits for the end of a process. Raises ToolError at a limit."""
        while True:
            running = process.poll() is None
            if sum(map(os.path.getsize, outputs)) > _MAX_OUTPUT:
                raise ToolError(f"stopped: the result has more than {size_words(_MAX_OUTPUT)}")
            if not running:
                return
            if monotonic() > deadline:
                raise ToolError(f"stopped after {self._seconds:g} s, the limit of --seconds")
            await asyncio.sleep(_POLL_SECONDS)


def _started(command: Sequence[str], folder: str, outputs: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that runs in *folder*, in a session of its own, and writes to two files. Raises OSError."""
    with open(outputs[0], "wb") as out, open(outputs[1], "wb") as err:
        return subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            env={**os.environ, "PYTHONSAFEPATH": "1", "NO_COLOR": "1"},
        )  # fmt: skip


def serve(tools: Tools) -> None:
    """Serves a client over standard input and output until it closes them."""
    server: Any = MCPServer(
        "tclint",
        version=__version__,
        log_level="WARNING",
        instructions="Lints NVIDIA PTX: check first, explain what is unclear, run or hang to see a defect happen.",
    )
    for tool in (tools.check, tools.explain, tools.hang, tools.run):
        server.add_tool(tool)
    server.run("stdio")
