"""From the arguments of a command to one report per input.

Owns finding inputs (files, folders, containers), the process pool, what happens to one input whatever goes wrong
(``one``), applying and verifying fixes (``fixing``), confirming findings by execution (``confirm``), and locating
NVIDIA's tools. Imports ``linting``, ``inline``, ``executor`` and ``report``.

Change this package when inputs come from somewhere new, or when a run over many files misbehaves.
"""
