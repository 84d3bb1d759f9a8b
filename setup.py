"""Only what pyproject.toml cannot say: the C extension of the grammar, built against Python's stable ABI, and what the
ISA table and the pages of the rules say in a form that is read fast."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# The free-threaded builds have no stable ABI.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")
SOURCES = "tclint/syntax"

sys.path.insert(0, str(Path(__file__).parent))
from tclint.findings import rules
from tclint.isa import documents

documents.prepare()
rules.prepare()
setup(
    ext_modules=[
        Extension(
            "tclint.syntax._binding",
            sources=[f"{SOURCES}/binding.c", f"{SOURCES}/src/parser.c", f"{SOURCES}/src/scanner.c"],
            depends=[f"{SOURCES}/src/tree_sitter/parser.h"],
            include_dirs=[f"{SOURCES}/src"],
            define_macros=[("Py_LIMITED_API", "0x030A0000"), ("PY_SSIZE_T_CLEAN", None)]
            if STABLE_ABI
            else [],
            py_limited_api=STABLE_ABI,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE_ABI else {},
)
