"""``tclint hang``: from the positions of the threads of a hang to the waits, the cycle and its cause.

- ``positions``: positions as they are given;
- ``debugger``: the tables of cuda-gdb;
- ``machine_code``: from offsets to lines;
- ``stops``: from positions to instructions and threads;
- ``waits``: what threads wait for, and which operations would complete it;
- ``skipped``: arrivals that a branch on data skips;
- ``cycle``: the chain of waits;
- ``causes``: what is wrong with the objects of the chain;
- ``explain``: all of this for one kernel, with what a replay and the checks know;
- ``render``: text and JSON.

Imports ``inspect`` and packages below it; no finding depends on it.

Change this package when a hang is explained wrongly, or when positions come from a new source.
"""
