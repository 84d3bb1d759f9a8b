"""Named tuples whose ``__new__`` is compiled for the first instance."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Any, Generic, TypeVar

import pytest

from tclint import _named_tuple
from tclint._named_tuple import NamedTuple, _New
from tests.tools.project import ROOT

T = TypeVar("T")


class Point(NamedTuple):
    """A point with a default and a method."""

    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


class Standard(typing.NamedTuple):
    x: int
    y: int = 2


class Nothing(NamedTuple):
    pass


class Box(NamedTuple, Generic[T]):
    item: T


class Named(Point):
    """A class with a named tuple as its base."""


def test_new_is_compiled_for_the_first_instance() -> None:
    class Fresh(NamedTuple):
        x: int

    assert isinstance(vars(Fresh)["__new__"], _New)
    assert Fresh(1).x == 1
    assert isinstance(vars(Fresh)["__new__"], staticmethod)


@pytest.mark.parametrize("kind", [Point, Standard])
def test_it_does_what_that_of_the_standard_library_does(kind: Any) -> None:
    one = kind(1)
    assert (one, kind(1, y=5), kind(x=3)) == ((1, 2), (1, 5), (3, 2))
    assert (one.x, one.y, hash(one)) == (1, 2, hash((1, 2)))
    assert repr(one) == f"{kind.__name__}(x=1, y=2)"
    assert one._replace(y=7) == kind._make((1, 7)) == kind(1, 7)
    assert type(one._replace(y=7)) is type(kind._make((1, 7))) is kind
    assert one._asdict() == {"x": 1, "y": 2}
    assert (kind._fields, kind._field_defaults, kind.__match_args__) == (("x", "y"), {"y": 2}, ("x", "y"))
    assert typing.get_type_hints(kind) == {"x": int, "y": int}
    assert str(inspect.signature(kind)) == "(x, y=2)" or kind is Standard
    for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert type(other) is kind
        assert other == one
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.x = 2
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError, match="Expected 2 arguments, got 1"):
        kind._make((1,))
    with pytest.raises((TypeError, ValueError), match="unexpected field names: \\['z'\\]"):
        one._replace(z=3)


def test_it_is_matched_by_position() -> None:
    match Point(1, 3):
        case Point(x, y):
            assert (x, y) == (1, 3)


def test_it_has_methods_and_subclasses() -> None:
    assert Point(1).sum == 3
    assert (Named(4).sum, type(Named(4)), isinstance(Named(4), Point)) == (6, Named, True)
    assert (Nothing(), Nothing._fields, repr(Nothing())) == ((), (), "Nothing()")
    assert type(Point) is type


def test_it_may_be_generic() -> None:
    assert Box[int](3) == Box(3) == (3,)
    assert typing.get_origin(Box[int]) is Box
    assert Box.__doc__ is None


def test_a_definition_that_is_wrong_is_an_error() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type(NamedTuple)("Bad", (NamedTuple,), {"__annotations__": {"x": "int", "y": "int"}, "x": 1})
    with pytest.raises(ValueError, match="underscore"):
        type(NamedTuple)("Bad", (NamedTuple,), {"__annotations__": {"_x": "int"}})


def test_tclint_defines_no_others() -> None:
    own = ROOT / "tclint" / "_named_tuple.py"
    others = [path for path in (ROOT / "tclint").rglob("*.py") if path != own]
    assert [
        p.name for p in others if "NamedTuple" in p.read_text() and "_named_tuple" not in p.read_text()
    ] == []
    assert _named_tuple.__file__ == str(own)
