"""JSON schemas of what commands write."""

from __future__ import annotations

from typing import Any


def strict(schema: Any) -> Any:
    """The schema, which allows no other keys than those that it describes."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    return {**found, "additionalProperties": False} if "properties" in found and "type" in found else found
