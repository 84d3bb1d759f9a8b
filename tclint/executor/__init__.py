"""Executes PTX on a CPU, with asynchronous operations as late as the ISA allows; see docs/executor.md.

:func:`tclint.executor.run.execute_file` executes the launches of a launch file, :func:`tclint.executor.confirm.confirm`
judges findings. Needs numpy; nothing else of tclint imports this package before it is asked for.
"""
