"""Named tuples that are cheap to define: :data:`NamedTuple` is that of ``typing``, without what few runs ask for.

The standard library compiles ``__new__`` and a reference for each annotation when the class is defined. That was a
twentieth of the time of linting a small kernel, which makes instances of a third of the classes that it imports. Here,
``__new__`` is compiled for the first instance, and annotations stay text.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic

from tclint._signals import signals_held

__all__ = ["NamedTuple"]

try:
    from _collections import _tuplegetter as _getter  # type: ignore[import-not-found]
except ImportError:  # another implementation of Python

    def _getter(index: int, doc: str) -> property:
        return property(itemgetter(index), doc=doc)


class _Methods(tuple[Any, ...]):
    """What all named tuples have."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]

    @classmethod
    def _make(cls, items: Iterable[Any]) -> Any:
        """The instance of *items*. Raises TypeError if they are not as many as the fields."""
        made = tuple.__new__(cls, items)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        """A copy with *changes*. Raises ValueError for one that names no field."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    __replace__ = _replace

    def _asdict(self) -> dict[str, Any]:
        """Field -> its value."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _New:
    """The ``__new__`` of a named tuple, which is compiled, and takes the place of this one, when it is looked up."""

    __slots__ = ("_defaults", "_owner")

    def __init__(self, owner: type[_Methods], defaults: tuple[Any, ...]) -> None:
        self._owner, self._defaults = owner, defaults

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        fields = "".join(f"{name}, " for name in self._owner._fields)
        # An interrupt of eval() would make the process die of it at its end.
        with signals_held():
            made: Any = eval(f"lambda _cls, {fields}: _new(_cls, ({fields}))", {"_new": tuple.__new__})
            made.__name__, made.__qualname__ = "__new__", f"{self._owner.__qualname__}.__new__"
            made.__defaults__ = self._defaults
            self._owner.__new__ = staticmethod(made)  # type: ignore[method-assign]
        return made


if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Defining(type):
        """Makes the classes that have :data:`NamedTuple` as a base. It is not their metaclass."""

        def __new__(cls, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            if any(field.startswith("_") for field in fields):
                raise ValueError(f"{name}: the name of a field begins with an underscore")
            getters = {field: _getter(index, "") for index, field in enumerate(fields)}
            facts = {
                "__slots__": (),
                "_fields": fields,
                "_field_defaults": defaults,
                "__match_args__": fields,
            }
            if Generic in bases:  # it comes after tuple, which is generic in another way
                body["__class_getitem__"] = classmethod(Generic.__class_getitem__.__func__)
            made = type(name, (_Methods, *bases[1:]), {**body, **getters, **facts})
            made.__new__ = _New(made, tuple(defaults.values()))
            return made

    NamedTuple = type.__new__(_Defining, "NamedTuple", (), {})
