"""Executes PTX on the CPU, completing asynchronous operations when a schedule decides (docs/executor.md).

Owns the state of a launch (``state``), the machine that schedules it, the decoded kernel (``code``, ``decode``), launch
files, and the semantics of each instruction (``instructions``). :func:`tclint.executor.run.execute_file` executes the
launches of a launch file. The only package that imports numpy, which linting does not need; imports ``analyses``,
``dataflow``, ``ir``, ``isa``, ``recording``, ``sync``, ``values`` and ``syntax``.

Change this package to execute an instruction that ``tclint run`` cannot: a function in ``instructions``.
"""
