"""From the arguments of a command to one report per input.

Owns the discovery of inputs (files, folders, containers), the process pool, processes that share the kernels of a module
(``helpers``), linting one input with all errors turned into reports (``one``, ``pool``), applying and verifying fixes (``fixing``), confirming findings by execution
(``confirm``), executing kernels that have none (``executing``), the sources from which PTX was compiled
(``user_sources``), and locating NVIDIA's tools. Imports ``linting``, ``inline``, ``executor`` and ``report``.

Change this package when inputs come from somewhere new, or when a run over many files misbehaves.
"""
