"""The instruction set as data: the only package that knows an opcode.

Owns the instruction forms (``*.toml``, see README.md), their notation and matching (``table``, ``notation``), register
widths, scalar semantics as pure functions, special registers, directives, and targets with their versions and toolkits.
Imports ``syntax`` at most.

Change this package to add or correct an instruction: a form in one TOML file. Analyses, checks and the executor then
see its operands, events and availability.
"""
