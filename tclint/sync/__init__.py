"""The state machines of what threads synchronise with: the phases of mbarriers and of barriers (PTX ISA 9.7.13), and the
stages of asynchronous operations.

Owns what a phase still lacks, what completes it, and what a test of it answers, and what an instruction makes of the stage
of an operation: numbers alone. The replay and the executor add what else they keep of such an object, such as the clocks
that arrivals release to it, and decide when an operation takes place. Imports at most ``isa``.

Change this package when the manual changes what completes a phase or an operation; ``tests/reference`` then has to change
too.
"""
