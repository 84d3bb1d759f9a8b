"""Repair a kernel in a loop, as a program that writes kernels would: check it, apply one verified fix, check it again.

python repair_loop.py KERNEL.ptx [FIXED.ptx]

Everything that the loop knows comes from `tclint check --output-format json`. A program that edits CUDA or Python would
change the source at `shown_at` as `help_source` says, compile, and run the command in `verify` of the finding.
"""

import json
import subprocess
import sys
from pathlib import Path

MAX_ROUNDS = 20


def checked(path: Path) -> dict:
    """The document about a kernel. Exit code 1 means findings; 2 means that it could not be analysed."""
    command = [sys.executable, "-m", "tclint", "check", "--isolated", "--output-format", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def edited(text: str, edits: list[dict]) -> str:
    """*text* with *edits*, whose lines and columns count from 1."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column - 1

    for edit in sorted(edits, key=lambda edit: (edit["line"], edit["column"]), reverse=True):
        start, end = offset(edit["line"], edit["column"]), offset(edit["end_line"], edit["end_column"])
        text = text[:start] + edit["text"] + text[end:]
    return text


def repaired(path: Path) -> bool:
    """Applies fixes to the kernel until nothing is left that fails the run. Prints each step."""
    for number in range(1, MAX_ROUNDS):
        document = checked(path)
        if document["outcome"] == "clean":
            print(f"{number}. clean")
            return True
        findings = [finding for file in document["files"] for finding in file["findings"]]
        finding = next((finding for finding in findings if finding["fails"] and finding["fixes"]), None)
        if finding is None:
            print(f"{number}. {document['verdict']}, and no fix is known")
            return False
        fix = finding["fixes"][0]
        print(f"{number}. {finding['id']} line {finding['line']}: {fix['message']}")
        path.write_text(edited(path.read_text(), fix["edits"]))
    return False


if __name__ == "__main__":
    kernel = Path(sys.argv[1])
    target = Path(sys.argv[2] if len(sys.argv) > 2 else kernel)
    target.write_text(kernel.read_text())
    sys.exit(0 if repaired(target) else 1)
