"""Executes PTX on a CPU, with asynchronous operations completing as late as the ISA allows; see docs/executor.md.

Owns the state of a launch (``state``), the machine that schedules it, the decoded kernel (``code``, ``decode``), launch
files, and what each instruction computes (``instructions``). :func:`tclint.executor.run.execute_file` executes the
launches of a launch file. The only package that imports numpy, which linting does without; imports ``ir``, ``isa``,
``values`` and ``syntax``.

Change this package to execute an instruction that ``tclint run`` cannot: a function in ``instructions``.
"""
