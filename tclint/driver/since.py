"""Which files differ from those of a commit, for ``tclint check --since``.

Contents are compared with the objects of the commit's tree. Git is only asked for names and objects, since a comparison of its
own would run the filters that a repository configures.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from subprocess import TimeoutExpired

from tclint._git import absolute, asked, repository
from tclint._read import read_file

__all__ = ["SinceError", "changed"]

_MAX_GIT_SECONDS = 60
_BLOB = b"blob"
_HASHES = {40: hashlib.sha1, 64: hashlib.sha256}
"""By the digits of the name of an object."""


class SinceError(Exception):
    """There is nothing to compare with. The message is meant for the user."""


def changed(chosen: Sequence[tuple[str, str]], ref: str, limit: int) -> list[tuple[str, str]]:
    """Those of the *chosen* files (path, name) that are not as they were where the current branch left *ref*.

    A file that git does not track, or that is outside the repository of the working folder, counts as changed, and so does one
    of more than *limit* bytes. Raises SinceError.
    """
    root = repository(os.curdir)
    if root is None:
        raise SinceError("the working folder is in no git repository")
    commit = _said(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").strip()
    if not commit:
        raise SinceError(f"git knows no commit {ref!r} here")
    base = _said(root, "merge-base", os.fsdecode(commit), "HEAD").strip() or commit
    listed = _said(root, "ls-tree", "-r", "-z", "--full-tree", os.fsdecode(base))
    objects: dict[str, str] = {}
    for record in filter(None, listed.split(b"\0")):
        kind, _, name = record.partition(b"\t")
        _, what, digest = kind.split(b" ")
        if what == _BLOB:
            objects[os.path.join(root, os.fsdecode(name))] = digest.decode()
    return [one for one in chosen if not _same(objects.get(absolute(one[0]), ""), one[0], limit)]


def _said(root: str, *arguments: str) -> bytes:
    """What git prints; nothing if it fails. Raises SinceError."""
    try:
        return asked(root, *arguments, seconds=_MAX_GIT_SECONDS) or b""
    except OSError as error:
        raise SinceError(f"git cannot be run: {error.strerror}") from None
    except TimeoutExpired as error:
        raise SinceError(f"git gave no answer in {error.timeout} s") from None


def _same(digest: str, path: str, limit: int) -> bool:
    """Whether the file is the object of that name."""
    if len(digest) not in _HASHES or os.path.islink(path):
        return False
    try:
        data = read_file(path, limit)
    except (OSError, ValueError):
        return False
    return _HASHES[len(digest)](b"blob %d\0" % len(data) + data).hexdigest() == digest
