"""The hash of the cache.

Two texts with the same hash would have the same report, so it is a cryptographic one: an accident is out of the question,
and so is a text that was made to have the report of another.
"""

from __future__ import annotations

try:  # hashlib loads OpenSSL, which takes as long as all else that a look-up does
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b

__all__ = ["BYTES", "digest", "digest_bytes"]

BYTES = 20
"""The size of a hash."""


def digest(*parts: str | bytes) -> str:
    """The hash of *parts*, in hexadecimal digits; ``("ab", "c")`` and ``("a", "bc")`` have different ones."""
    return digest_bytes(*parts).hex()


def digest_bytes(*parts: str | bytes) -> bytes:
    """The hash of *parts*."""
    made = blake2b(digest_size=BYTES)
    for part in parts:
        encoded = part if isinstance(part, bytes) else part.encode(errors="surrogateescape")
        made.update(b"%d:" % len(encoded))
        made.update(encoded)
    return made.digest()
