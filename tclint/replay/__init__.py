"""Replays: abstract execution of the synchronisation of a kernel, for launches that are made up.

Which phase a wait is for depends on loop counters, stages of ring buffers and parities. A replay computes these and
executes what synchronises; it computes no data. Threads on the same path are executed together. An asynchronous copy
or commit completes only when no thread can continue without it, and vector clocks record what each warp has observed,
so a read that no wait orders after a copy is a race even if it comes later in this run (PTX ISA 8, 9.7.13.15).

One value stands for all parameters, and one for all contents of global memory. The kernel then does what it does for
*some* launch, if it accepts any. A fault in one launch proves nothing, so a verdict needs all launches that reach the
same code (:mod:`~tclint.replay.hypotheses`). Imports ``analyses`` and what is below it.

The layers, each importing only those before it:

- ``replayed``: which kernels are replayed;
- ``reasons``: why a replay has no verdict;
- ``abstract_lanes``, ``vector_clocks``, ``sync``: values of registers, clocks, barrier and mbarrier objects;
- ``hypotheses``, ``launch``: what is assumed about a launch;
- ``shared_stores``, ``steps``, ``plans``: what an instruction does in a replay, and what a block executes;
- ``launch_inputs``, ``loops``, ``dispatch``, ``launch_operands``, ``shared_accesses``: what the launch decides;
- ``program``: the slice of the kernel that is executed, with all of these;
- ``thread_groups``, ``epochs``, ``accesses``, ``lane_exchange``: threads, their clocks, and what they access and exchange;
- ``scheduler``: which threads run next, and where they diverge and reconverge;
- ``operations``, ``shared_bytes``, ``machine``: the state of one launch;
- ``instructions``: what each kind of step does;
- ``warp_overlaps``, ``races``: the accesses that nothing orders;
- ``launches``, ``launch_search``: which launches are tried, and what they show together;
- ``interface``, ``empty_items``, ``verdict``: what the rest of tclint asks, whether items without work are tested for, and
  the answers;
- ``faults``: the fault that a replay shows, for which a kernel that is not replayed imports none of these but the first;
- ``bounds``: the launches in which the mbarriers are used as they must be.

Change this package when a replay gives up early, or reports a race or a deadlock that no launch can have.
"""
