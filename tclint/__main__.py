"""``python -m tclint``: the command, for environments whose scripts folder is not on PATH."""

from __future__ import annotations

from tclint.commands._cli import main

if __name__ == "__main__":
    main()
