"""Lints two fixtures with the tclint that is installed: ``python try_install.py FIXTURES``.

For what was just built, on any system: the extension loads, the data is there, the command works.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tclint
from tclint._data import data
from tclint.findings.rules import all_rules, default_rules
from tclint.isa.documents import documents

fixtures = Path(sys.argv[1])
assert len(documents().forms) > 300
assert len(all_rules()) > len(default_rules()) > 100
assert not {"tomllib", "tomli"} & sys.modules.keys(), "what setup.py prepares is missing or stale"
assert any(data("queries").glob("*.scm"))
for name, expected in (("wgmma_waited.ptx", 0), ("wgmma_unwaited.ptx", 1), ("no_such_file.ptx", 2)):
    command = [
        sys.executable,
        "-I",
        "-m",
        "tclint",
        "check",
        "--output-format",
        "concise",
        str(fixtures / name),
    ]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == expected, (name, done)
    assert ("WG001" in done.stdout) == (expected == 1), (name, done)
print(f"tclint {tclint.__version__} works in Python {sys.version.split()[0]}")
