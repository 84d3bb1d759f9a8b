"""Named tuples whose constructor is made when it is first looked up."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import typing
from typing import Any, Generic, TypeVar

import pytest

import tclint
from tclint import _namedtuple
from tclint._namedtuple import NamedTuple

T = TypeVar("T")


class Point(NamedTuple):
    """A point with a note."""

    x: int
    y: int = 2
    note: str = ""

    @property
    def sum(self) -> int:
        return self.x + self.y


class Place(Point):
    __slots__ = ()
    height = 3


class Box(NamedTuple, Generic[T]):
    content: T


class Standard(typing.NamedTuple):
    x: int
    y: int = 2
    note: str = ""


def test_constructor_is_made_when_a_class_is_first_instantiated() -> None:
    class Fresh(NamedTuple):
        x: int

    assert isinstance(vars(Fresh)["__new__"], _namedtuple._Constructor)
    assert Fresh(1) == (1,)
    assert isinstance(vars(Fresh)["__new__"], staticmethod)


def test_instance_is_a_tuple_with_names() -> None:
    point = Point(1, note="here")
    assert point == (1, 2, "here") == Standard(1, note="here")
    assert hash(point) == hash((1, 2, "here"))
    assert (point.x, point.y, point.note, point.sum) == (1, 2, "here", 3)
    assert repr(point) == "Point(x=1, y=2, note='here')"
    assert point._replace(y=5) == Point(1, 5, "here")
    assert isinstance(point._replace(y=5), Point)
    assert not hasattr(point, "__dict__")
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_subclass_adds_no_field() -> None:
    assert Place(1) == (1, 2, "")
    assert repr(Place(1)) == "Place(x=1, y=2, note='')"
    assert Place(1).height == 3
    assert Box("a").content == "a"
    assert Box[int](1) == (1,)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copy_has_the_class_of_the_original(copied: Any) -> None:
    for original in (Point(1), Place(2), Box("a")):
        assert copied(original) == original
        assert type(copied(original)) is type(original)


def test_wrong_arguments_and_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="unexpected field names: \\['z'\\]"):
        Point(1)._replace(z=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="a field without a default follows one with a default"):

        class Wrong(NamedTuple):
            x: int = 1
            y: int  # type: ignore[misc]


def test_named_tuples_of_tclint_have_the_fields_of_the_standard_library() -> None:
    compared = 0
    for module in pkgutil.walk_packages(tclint.__path__, "tclint."):
        if module.name.endswith("__main__"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if isinstance(cls, type) and NamedTuple in cls.__bases__ and cls.__module__ == module.name:
                fields = [(name, Any) for name in cls.__annotations__]
                standard: Any = typing.NamedTuple(cls.__name__, fields)  # type: ignore[misc]
                values = range(len(fields))
                assert repr(cls(*values)) == repr(standard(*values))
                assert [getattr(cls(*values), name) for name, _ in fields] == [*values]
                assert vars(cls)["_fields"] == vars(cls)["__match_args__"] == standard._fields
                compared += 1
    assert compared > 100
