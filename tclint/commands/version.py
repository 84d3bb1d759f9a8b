"""``tclint version``: the version, and what decides how this tclint runs."""

from __future__ import annotations

from typing import Any

import click

from tclint.commands import CLEAN
from tclint.commands._common import Choice, write

EXTRAS = {
    "run": "numpy",
    "capture": "nvidia-cuda-cupti",
    "lsp": "pygls",
    "mcp": "mcp",
    "pytest": "pytest",
    "docs": "zensical",
}
"""Extra -> the first distribution that it installs."""


@click.command()
@click.option(
    "--output-format",
    type=Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Output format.",
)
def command(output_format: str) -> int:
    """Show the version, and what a bug report should name.

    That is also the newest PTX ISA that is known, Python, the system, and the extras that are installed.
    """
    from tclint._json import to_json
    from tclint._version import __version__

    found = facts()
    if output_format == "json":
        write(to_json(found))
    else:
        write(
            f"tclint {__version__}\n"
            f"  PTX ISA:  {found['ptx_isa']}, {found['rules']} rules\n"
            f"  Python:   {found['python']}, {found['platform']}\n"
            f"  extras:   {', '.join(found['extras']) or 'none'}\n"
        )
    return CLEAN


def facts() -> dict[str, Any]:
    """What decides how this tclint runs, as ``tclint version --output-format json`` has it."""
    import platform

    from tclint._version import __version__
    from tclint.findings.rules import all_rules
    from tclint.isa.target import KNOWN, dotted
    from tclint.report.formats.json import SCHEMA

    return {
        "version": __version__,
        "ptx_isa": dotted(KNOWN),
        "rules": len(all_rules()),
        "json_schema": SCHEMA,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "extras": [extra for extra, needed in EXTRAS.items() if _installed(needed)],
    }


def _installed(distribution: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
