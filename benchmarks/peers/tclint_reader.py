"""Read PTX with tclint in one process: ``python -m benchmarks.peers.tclint_reader FILE...``, one JSON object for each."""

import json
import sys
from pathlib import Path
from time import process_time
from typing import Any

from tclint.ir.frontend import analyse
from tclint.linting.check import check_source
from tclint.syntax import parse
from tclint.syntax.source import Source, SourceError


def read(path: str) -> dict[str, Any]:
    """CPU seconds to the syntax tree, to instructions that are matched with the ISA table, and to the findings."""
    try:
        source = Source.read(Path(path))
    except SourceError as error:
        return {"refused": str(error)}
    began = process_time()
    parse(source.data)
    parsed = process_time()
    module, _ = analyse(source)
    for function in module.functions:
        function.uses  # noqa: B018  (each opcode is looked up)
    built = process_time()
    check_source(source)
    return {
        "refused": "",
        "tree": parsed - began,
        "instructions": built - parsed,
        "findings": process_time() - built,
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(json.dumps(read(name)), flush=True)
