"""Data classes that are cheap to define: :func:`dataclass` is that of the standard library, one method at a time.

The standard library compiles ``__init__``, ``__repr__``, ``__eq__`` and the other methods of a data class when the class
is defined. That was a third of the instructions of linting a small kernel, although such a run instantiates fewer than
half of the classes that it imports, and compares or shows hardly one. Here, the standard library makes each method when
it is first looked up; after that, nothing distinguishes the class from any other data class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tclint._signals import signals_held

__all__ = ["dataclass"]

_METHODS = {"__init__": "init", "__repr__": "repr", "__eq__": "eq", "__hash__": "eq"}
"""Method -> the option that asks for it."""
_PARAMS = "__dataclass_params__"
_FIELDS = ("__dataclass_fields__", "__match_args__")
_FACTS = (*_FIELDS, _PARAMS)
_ASSIGNMENTS = ("__setattr__", "__delattr__")
_STATE = ("__getstate__", "__setstate__")
"""What pickles an instance that is frozen and has slots."""
_KEYWORDS = "KW_ONLY"
"""How the annotation begins after which fields are keywords."""
_NO_FIELDS = ("ClassVar", _KEYWORDS)
"""How the annotations begin that declare no field."""
_OWN = frozenset(("__dict__", "__weakref__"))
"""What belongs to one class and is not copied to another."""

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, kw_only=False, slots=False):
        """As that of the standard library, but an error in the definition is raised when the class is first used."""
        options = {"eq": eq, "frozen": frozen, "kw_only": kw_only, "slots": slots}
        return _defined(cls, options) if cls is not None else lambda cls: _defined(cls, options)


def _defined(cls: type, options: dict[str, bool]) -> type:
    """*cls* as a data class of which every generated attribute is deferred."""
    body = {name: value for name, value in vars(cls).items() if name not in _OWN}
    fields = [
        name for name, kind in body.get("__annotations__", {}).items() if not kind.startswith(_NO_FIELDS)
    ]
    if options["slots"]:
        inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
        slots = tuple(name for name in fields if name not in inherited)
        kept = {name: value for name, value in body.items() if name not in fields}
        made = _like(cls, {**kept, "__slots__": slots})
    else:
        made = cls
        for name in fields:
            if isinstance(default := body.get(name), dataclasses.Field):
                if default.default is dataclasses.MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, default.default)
    for name in _generated(options):
        if body.get(name) is None:  # __hash__ is None beside an __eq__
            setattr(made, name, _Deferred(made, name, cls, body, options))
    return made


def _generated(options: dict[str, bool]) -> Iterator[str]:
    """The attributes that a data class with these *options* has and its definition need not."""
    for name, option in _METHODS.items():
        if options.get(option, True):
            yield name
    yield from _FACTS
    if options["frozen"]:
        yield from _ASSIGNMENTS
        if options["slots"]:
            yield from _STATE


def _like(cls: type, body: dict[str, Any]) -> type:
    """A class with the name and the bases of *cls*."""
    made: type = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


class _Deferred:
    """An attribute of a data class that is made, and takes the place of this one, when it is looked up."""

    __slots__ = ("_body", "_cls", "_name", "_options", "_owner")

    def __init__(
        self, owner: type, name: str, cls: type, body: dict[str, Any], options: dict[str, bool]
    ) -> None:
        self._owner, self._name = owner, name
        self._cls, self._body, self._options = cls, body, options

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        try:
            # An interrupt of the exec() that makes a method would make the process die of it at its end.
            with signals_held():
                value = self._made()
            setattr(self._owner, self._name, value)
        except BaseException as error:
            if self._name not in _METHODS:
                raise
            # An operator drops what its lookup of a method raises, that of a signal handler too, and not what a call raises.
            return partial(_raise, error)
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)

    def _made(self) -> Any:
        """The attribute as the standard library makes it in a copy of the class, without what it does not depend on."""
        made = self._initialiser() if self._name == "__init__" else None
        if made is not None:
            return made
        options = dict(self._options)
        if self._name != _PARAMS:  # which has the options
            asked = _METHODS.get(self._name)
            options.update({option: option == asked for option in _METHODS.values()})
            options["slots"] = self._name in _STATE
        if self._name in _FIELDS and not self._inherits():
            options["frozen"] = False  # which would make two methods that are not asked for
        # Without a docstring, it would write one from a signature, which takes as long as the rest.
        body = {**self._body, "__doc__": self._body.get("__doc__") or self._name}
        return vars(dataclasses.dataclass(**options)(_like(self._cls, body)))[self._name]

    def _inherits(self) -> bool:
        """Whether a base of the class is a data class."""
        return any(_PARAMS in vars(base) for base in self._cls.__mro__[1:])

    def _initialiser(self) -> Any:
        """The ``__init__`` of a class that inherits no fields, with defaults and factories; None for any other class.

        The standard library takes five times as long, which was a tenth of the start of a run.
        """
        kinds = self._body.get("__annotations__", {})
        if self._inherits():
            return None
        parameters, keywords, lines = ["self"], [], []
        by_keyword = self._options["kw_only"]
        scope: dict[str, Any] = {"__set": object.__setattr__, "__omitted": _OMITTED}
        for name, kind in kinds.items():
            if kind.startswith(_NO_FIELDS):
                by_keyword |= kind.startswith(_KEYWORDS)
                continue
            field, value = self._body.get(name, dataclasses.MISSING), name
            if not isinstance(field, dataclasses.Field):
                field = dataclasses.field(default=field)
            if not field.init or name == "self":
                return None
            scope[f"__{name}"] = field.default
            parameter = f"{name}=__{name}"
            if field.default_factory is not dataclasses.MISSING:
                scope[f"__{name}"] = field.default_factory
                parameter, value = f"{name}=__omitted", f"__{name}() if {name} is __omitted else {name}"
            elif field.default is dataclasses.MISSING:
                parameter = name
            elif type(field.default).__hash__ is None:
                return None  # it must not be shared, which is an error
            if by_keyword if field.kw_only is dataclasses.MISSING else field.kw_only:
                keywords.append(parameter)
            elif "=" in parameters[-1] and parameter == name:
                return None  # an error, too
            else:
                parameters.append(parameter)
            frozen = self._options["frozen"]
            lines.append(f" __set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        if hasattr(self._cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        if keywords:
            parameters += ["*", *keywords]
        code = "\n".join((f"def __init__({', '.join(parameters)}):", *(lines or [" pass"])))
        exec(code, scope)  # noqa: S102
        made = scope["__init__"]
        made.__qualname__ = f"{self._cls.__qualname__}.__init__"
        made.__annotations__ = {**kinds, "return": None}
        return made


def _raise(error: BaseException, *_: object, **__: object) -> None:
    raise error


class _Omitted:
    """The default value of a parameter whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_OMITTED = _Omitted()
