"""tclint beside other programs that read PTX: the same files, the same planted faults, one run.

    python -m benchmarks.peers [FOLDER] [--record] [--limit 60] [--each 3]

ptxas is NVIDIA's assembler, pyptx a parser and validator in Python, SentryWard a verifier that is given how a kernel is
started. FOLDER is the corpus. Each of them has its own purpose; README.md in the folder above says what is compared.
"""

from benchmarks.peers.report import ABOUT, TITLE, section

__all__ = ["ABOUT", "COMMAND", "SLICE", "TITLE", "section"]

COMMAND = "python -m benchmarks.peers --record"
SLICE = ""
