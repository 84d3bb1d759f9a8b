"""Read PTX with pyptx, in its environment: ``python pyptx_reader.py FILE...`` prints one JSON object for each.

Its parser keeps a line that it cannot read as it stands and continues; its validator, which is given one instruction at
a time, knows modifiers and numbers of operands. Both are asked, and all that they object to is said.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

parse: Any = importlib.import_module("pyptx.parser").parse
validate: Any = importlib.import_module("pyptx.spec").validate_instruction


def nodes(node: Any) -> Iterator[Any]:
    """*node* and all statements inside it."""
    yield node
    for name in ("directives", "body"):
        for child in getattr(node, name, None) or ():
            yield from nodes(child)


def read(path: str) -> dict[str, Any]:
    """CPU seconds of the parser, why it refused the file, and what parser and validator object to."""
    text = Path(path).read_text(encoding="utf-8")
    began = process_time()
    try:
        module = parse(text)
    except Exception as error:  # noqa: BLE001  (not only its ParseError: an unknown word is a ValueError)
        return {"seconds": process_time() - began, "refused": f"{type(error).__name__}: {error}", "said": []}
    seconds = process_time() - began
    said = []
    for node in nodes(module):
        kind = type(node).__name__
        if kind == "RawLine":
            said.append(f"not parsed: {node.text}")
        elif kind == "Instruction":
            opcode = node.opcode + "".join(node.modifiers)
            said += [f"{issue.severity}: {opcode}: {issue.message}" for issue in validate(node)]
    return {"seconds": seconds, "refused": "", "said": said}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(read(name)), flush=True)
