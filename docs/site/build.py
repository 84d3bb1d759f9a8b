"""Builds the site: ``python docs/site/build.py [--source-url URL] FOLDER``, needs ``pip install 'tclint-ptx[docs]'``.

Writes ``FOLDER/site`` and fails on anything that the generator, the builder or the check of its links complains of.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from check import problems
from generate import PageError, generate


def main() -> int:
    """Builds; the exit code."""
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("folder", type=Path, help="where docs/, zensical.toml and site/ are written")
    parser.add_argument("--source-url", default="", help="where the files of the repository can be seen")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        generate(folder, options.source_url)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    here = Path(__file__).resolve().parent
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])  # for ptx_fence
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, check=False)
    if done.returncode:
        return 1
    found = list(problems(folder / "site"))
    print(*found, sep="\n", end="\n" * bool(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
