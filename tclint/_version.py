"""The version of tclint, alone: packages that print it must not import the public interface."""

from __future__ import annotations

__version__ = "0.1.0"
