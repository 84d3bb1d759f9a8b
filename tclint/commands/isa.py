"""``tclint isa``: an instruction as the ISA table describes it."""

from __future__ import annotations

import click

from tclint.commands import CLEAN
from tclint.commands._common import usage, width, write


def _complete_opcodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tclint.isa.table import table

    return [name for name in table().forms if name.lower().startswith(incomplete.lower())]


@click.command()
@click.argument("opcode", shell_complete=_complete_opcodes)
def command(opcode: str) -> int:
    """Describe an instruction.

    OPCODE is a complete opcode, its first words, or the name of a form, in any case.
    """
    from tclint.inspect import explain as texts
    from tclint.isa.table import table

    try:
        write(texts.isa(table(), opcode, width()))
    except texts.UnknownOpcode as error:
        raise usage(error) from None
    return CLEAN
