"""Named tuples that are cheap to define: :class:`NamedTuple` is used as that of the standard library.

The standard library compiles every annotation and a ``__new__`` when the class is defined, which takes eight times as
long as the class itself; a run on a small kernel imports fifty such classes and instantiates few of them. Here,
annotations stay texts, and ``__new__`` is made when a class is first instantiated.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Meta(type):
        def __new__(cls, name, bases, body):
            """A class of tuples whose elements are the annotated names of *body*."""
            if bases[0].__base__ is tuple:  # that is, NamedTuple
                fields = tuple(body["__annotations__"])
                defaults = {field: body[field] for field in fields if field in body}
                if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                    raise TypeError(f"{name}: a field without a default follows one with a default")
                body.update((field, _tuplegetter(index, None)) for index, field in enumerate(fields))
                body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
                body["__new__"] = _Constructor()
            return super().__new__(cls, name, bases, {"__slots__": (), **body})

    class NamedTuple(tuple, metaclass=_Meta):
        """As that of the standard library, without ``_make`` and ``_asdict``."""

        def __repr__(self):
            pairs = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(pairs)})"

        def _replace(self, /, **changes):
            values = [changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return tuple.__new__(type(self), values)

        def __getnewargs__(self):
            return tuple(self)


class _Constructor:
    """The ``__new__`` of a class, which is made, and takes the place of this one, when it is looked up."""

    __slots__ = ("_owner",)

    def __set_name__(self, owner: Any, name: str) -> None:
        self._owner = owner

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls = self._owner
        names = ", ".join(cls._fields)
        scope: dict[str, Any] = {"_new": tuple.__new__}
        exec(f"def __new__(_cls, {names}): return _new(_cls, ({names},))", scope)  # noqa: S102
        made = scope["__new__"]
        made.__defaults__ = tuple(cls._field_defaults.values())
        made.__qualname__ = f"{cls.__qualname__}.__new__"
        cls.__new__ = staticmethod(made)
        return made
