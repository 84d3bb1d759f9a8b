"""The tools of ``tclint mcp``: each call runs a command of tclint in a process of its own, with limits.

The process gets a copy of each kernel, in a folder of its own, and options that this module writes; a call chooses values
only. Its result is the JSON that the command writes, in which a kernel has the path that the call passed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from tclint._data import data
from tclint._named_tuple import NamedTuple
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
Rules = Annotated[list[str] | None, Field(description="Rules to check: ids, names, families, prefixes.")]


class _Kernel(NamedTuple):
    """A kernel of a call."""

    name: str
    """The name of its copy."""
    shown: str
    """What the call named it."""
    data: bytes


class _Call(NamedTuple):
    """What a command is asked."""

    name: str
    options: Sequence[str]
    kernels: Sequence[_Kernel] = ()
    arguments: Sequence[str] = ()


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
        select: Rules = None,
        pedantic: Annotated[bool, Field(description="Also report findings of low confidence.")] = False,
        verdict: Annotated[bool, Field(description="Also state what is proved of each kernel.")] = False,
    ) -> CallToolResult:
        """Lint a kernel: findings with place, cause and fix, and an outcome."""
        options = ["--pedantic"] * pedantic + ["--verdict"] * verdict
        return await self._document("check", [*self._linting(select), *options], [self._kernel(path, text)])

    async def fix(
        self,
        path: KernelPath = None,
        text: KernelText = None,
        select: Rules = None,
        unsafe: Annotated[
            bool, Field(description="Also apply fixes that may change what the program computes.")
        ] = False,
    ) -> CallToolResult:
        """Apply the fixes of findings to a copy of a kernel: its new text, and what is left. No file is changed."""
        options = ["--fix", *["--unsafe-fixes"] * unsafe]
        kernel = self._kernel(path, text)
        with _folder() as folder:
            document = await self._called(
                _Call("check", [*self._linting(select), *options], [kernel]), folder
            )
            data = read_file(os.path.join(folder, "input", kernel.name), _MAX_OUTPUT)
        try:
            fixed = data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{kernel.shown}: fixes are for texts only") from None
        return _result({"changed": data != kernel.data, "text": fixed, "report": document})

    async def explain(
        self, rules: Annotated[list[str], Field(description="Ids or names, such as WG001.", min_length=1)]
    ) -> CallToolResult:
        """Show what rules find, why it is wrong, and how to correct it."""
        return await self._document("explain", ["--output-format=json"], (), rules)

    async def isa(
        self,
        opcode: Annotated[
            str, Field(description="An opcode, such as wgmma.mma_async, or the first part of some.")
        ],
    ) -> CallToolResult:
        """Show the forms of an instruction, with operands, availability and meaning."""
        with _folder() as folder:
            output = await self._output(_Call("isa", (), arguments=(opcode,)), folder)
        return _result({"text": output.decode()})

    async def hang(
        self,
        at: Annotated[
            list[str] | str,
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
        """Explain a hang from where its threads are."""
        options = [f"--at={position}" for position in _several(at)] + self._entry(entry)
        return await self._document(
            "hang", [*options, *self._max_input(), "--output-format=json"], [self._kernel(path, text)]
        )

    async def barriers(
        self,
        path: KernelPath = None,
        text: KernelText = None,
        objects: Annotated[
            list[str] | str | None,
            Field(
                description="Only these mbarriers (full, full[4]), CTA barriers (by number) or the cluster barrier."
            ),
        ] = None,
        at: Annotated[
            list[int] | int | None, Field(description="Only what the instructions in these lines use.")
        ] = None,
        entry: Entry = None,
    ) -> CallToolResult:
        """Show which threads of a kernel wait for which: mbarriers, barriers, shared memory, the events of each role."""
        options = [f"--object={each}" for each in _several(objects)]
        options += [f"--at={line}" for line in ([at] if isinstance(at, int) else at or ())]
        return await self._document(
            "barriers",
            [*options, *self._entry(entry), *self._max_input(), "--output-format=json"],
            [self._kernel(path, text)],
        )

    async def diff(
        self,
        old_path: KernelPath = None,
        old_text: KernelText = None,
        new_path: KernelPath = None,
        new_text: KernelText = None,
    ) -> CallToolResult:
        """Compare the synchronisation, the copies and the findings of two versions of a kernel."""
        kernels = [self._kernel(old_path, old_text, "old_"), self._kernel(new_path, new_text, "new_")]
        return await self._document(
            "diff", ["--isolated", *self._max_input(), "--output-format=json"], kernels
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
        return await self._document(
            "run", [*options, *self._max_input(), "--output-format=json"], [self._kernel(path, text)]
        )

    # ---------------------------------------------------------------- inputs

    def _max_input(self) -> list[str]:
        return [f"--max-input={max(self._limit >> 20, 1)}"]

    def _entry(self, entry: str | None) -> list[str]:
        return [] if entry is None else [f"--entry={entry}"]

    def _linting(self, select: Sequence[str] | None) -> list[str]:
        """The options of ``tclint check``, apart from those that a call chooses."""
        rules = [f"--select={rule}" for rule in select or ()]
        return ["--isolated", "--no-cache", "--jobs=1", *self._max_input(), "--output-format=json", *rules]

    def _kernel(self, path: str | None, text: str | None, prefix: str = "") -> _Kernel:
        """The kernel of a call, whose arguments begin with *prefix*. Raises ToolError."""
        if (path is None) == (text is None):
            raise ToolError(f"pass either {prefix}path or {prefix}text")
        if path is None:
            data = (text or "").encode("utf-8", "surrogatepass")
            if len(data) > self._limit:
                raise ToolError(
                    f"{prefix}text: it has more than {size_words(self._limit)}, the limit of --max-input"
                )
            return _Kernel(f"{prefix}kernel.ptx", f"{prefix}text", data)
        found = self._allowed(path)
        try:
            return _Kernel(prefix + found.name, path, read_file(found, self._limit))
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

    async def _document(
        self, name: str, options: Sequence[str], kernels: Sequence[_Kernel], arguments: Sequence[str] = ()
    ) -> CallToolResult:
        """The document that a command writes about *kernels* or *arguments*, as a result. Raises ToolError."""
        with _folder() as folder:
            return _result(await self._called(_Call(name, options, kernels, arguments), folder))

    async def _called(self, call: _Call, folder: str) -> dict[str, Any]:
        """The document that a command writes, with the paths of its kernels as the caller named them. Raises ToolError."""
        written = json.loads(await self._output(call, folder))
        document: Any = written if isinstance(written, dict) else {"rules": written}
        for kernel in call.kernels:
            document = _renamed(document, f"input/{kernel.name}", kernel.shown)
        assert isinstance(document, dict)
        return document

    async def _output(self, call: _Call, folder: str) -> bytes:
        """What a command prints about copies of its kernels, which are made below *folder*, or about its arguments.

        Raises ToolError if it prints nothing but errors.
        """
        # Below the folder in which the process runs: Python would import modules from that folder.
        inside = Path(folder, "input")
        inside.mkdir()
        for kernel in call.kernels:
            (inside / kernel.name).write_bytes(kernel.data)
        paths = [f"input/{kernel.name}" for kernel in call.kernels]
        command = (sys.executable, "-m", "tclint", call.name, *call.options, "--", *paths, *call.arguments)
        if any("\0" in word for word in command):
            raise ToolError("a NUL character in an argument")
        output, errors = await self._executed(command, folder)
        if not output.strip():
            words = " ".join(errors.decode(errors="replace").split()).rpartition("Error: ")[2]
            for kernel in call.kernels:
                words = words.replace(f"input/{kernel.name}", kernel.shown)
            raise ToolError(shortened(words, _MAX_MESSAGE) or "no result")
        return output

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


def _folder() -> TemporaryDirectory[str]:
    """A folder for the process of one call."""
    return TemporaryDirectory(prefix="tclint-", ignore_cleanup_errors=True)


def _several(values: Sequence[str] | str | None) -> Sequence[str]:
    """The values of an argument that may be a single one."""
    return [values] if isinstance(values, str) else values or ()


def _renamed(value: Any, path: str, shown: str) -> Any:
    """*value*, a part of a JSON document, with *shown* in place of *path* in all its strings."""
    if isinstance(value, dict):
        return {key: _renamed(each, path, shown) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, path, shown) for each in value]
    return value.replace(path, shown) if isinstance(value, str) else value


def _result(document: dict[str, Any]) -> CallToolResult:
    content = TextContent(type="text", text=json.dumps(document))
    return CallToolResult(content=[content], structured_content=document)


def _schema(name: str) -> dict[str, Any]:
    """The JSON schema of what the tool *name* returns."""
    if name in _KEYS:
        return _object(_KEYS[name])
    found: dict[str, Any] = json.loads(read_file(data("docs") / f"{name}.schema.json"))
    return found


def _object(keys: Mapping[str, str]) -> dict[str, Any]:
    properties = {key: {"type": type} for key, type in keys.items()}
    return {"type": "object", "required": [*keys], "properties": properties}


_KEYS = {
    "explain": {"rules": "array"},
    "fix": {"changed": "boolean", "text": "string", "report": "object"},
    "isa": {"text": "string"},
    "run": {"path": "string", "launches": "array", "notes": "array", "differences": "array"},
}
"""The keys of results that no page has a schema for."""


def serve(tools: Tools) -> None:
    """Serves a client over standard input and output until it closes them."""
    server: Any = MCPServer(
        "tclint",
        version=__version__,
        log_level="WARNING",
        instructions="Lints NVIDIA PTX: check first, explain what is unclear, fix what has a fix, run or hang to see a defect "
        "happen, barriers and diff to understand a kernel.",
    )
    reads = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    for tool in (
        tools.check, tools.explain, tools.fix, tools.isa, tools.hang, tools.barriers, tools.diff, tools.run,
    ):  # fmt: skip
        server.add_tool(tool, annotations=reads)
    for tool in server._tool_manager.list_tools():  # the SDK takes a schema from Python types alone
        tool.fn_metadata.output_schema = _schema(tool.name)
    server.run("stdio")
