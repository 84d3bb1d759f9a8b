"""Data classes whose methods are made when they are first looked up."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import pkgutil
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, FrozenInstanceError, field, fields, replace
from types import FunctionType
from typing import Any, ClassVar

import pytest

import tclint
from tclint import _dataclass
from tclint._dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Frozen, with slots, a default, and a field that does not count."""

    x: int
    y: int = 2
    note: str = field(default="", compare=False)
    count: ClassVar[int] = 7


@dataclass(frozen=True, slots=True)
class Place(Point):
    z: int = 3
    _: KW_ONLY
    names: tuple[str, ...] = ()


@dataclass
class Cell:
    values: list[int] = field(default_factory=list)
    total: int = field(default=0)

    def __post_init__(self) -> None:
        self.total += sum(self.values)


@dataclass(slots=True, eq=False)
class Node:
    name: str


def test_method_is_made_when_it_is_first_looked_up() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int

    assert not any(isinstance(value, FunctionType) for value in vars(Fresh).values())
    Fresh(1)
    assert isinstance(vars(Fresh)["__init__"], FunctionType)
    assert not isinstance(vars(Fresh)["__eq__"], FunctionType)
    assert Fresh(1) == Fresh(1)
    assert isinstance(vars(Fresh)["__eq__"], FunctionType)


def test_instances_are_equal_and_hashed_by_the_fields_that_count() -> None:
    assert Point(1) == Point(1, 2, "other") != Point(2)
    assert hash(Point(1)) == hash(Point(1, 2, "other"))
    assert Point(1) != Place(1)
    assert Node("a") != Node("a")
    assert hash(Node("a"))


def test_mutable_class_with_equality_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Cell())


def test_initialiser_needs_no_class_of_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int
        names: list[str] = field(default_factory=list)
        self_made: int = 3

    @dataclass
    class Summed:
        x: int = field(default=2)

        def __post_init__(self) -> None:
            self.x += 1

    monkeypatch.setattr(dataclasses, "dataclass", None)
    one = Fresh(1, self_made=4)
    assert (one.x, one.names, one.self_made) == (1, [], 4)
    assert Fresh(1).names is not one.names
    assert Fresh(1, ["a"]).names == ["a"]
    assert Summed().x == 3


def test_definition_with_an_error_is_refused_as_by_the_standard_library() -> None:
    @dataclass
    class Shared:
        values: list[int] = []  # noqa: RUF012

    @dataclass
    class Unordered:
        x: int = 1
        y: int  # type: ignore[misc]

    with pytest.raises(ValueError, match="mutable default"):
        Shared()
    with pytest.raises(TypeError, match="non-default argument"):
        Unordered(1)  # type: ignore[call-arg]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt, which a shell may have made ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("use", ["one == None", "hash(one)", "repr(one)", "Fresh(1)"])
def test_what_a_signal_raises_while_a_method_is_made_is_not_dropped(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int

    make, one = _dataclass._Deferred._made, object.__new__(Fresh)

    def interrupted(deferred: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return make(deferred)

    names = {"Fresh": Fresh, "one": one}
    with monkeypatch.context() as patched:
        patched.setattr(_dataclass._Deferred, "_made", interrupted)
        with pytest.raises(KeyboardInterrupt):
            eval(use, names)
    object.__setattr__(one, "x", 1)
    eval(use, names)
    assert one == Fresh(1)


def test_frozen_instance_refuses_assignment_before_any_other_use() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        x: int

    empty = object.__new__(Fresh)
    with pytest.raises(FrozenInstanceError):
        empty.x = 1  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del empty.x  # type: ignore[misc]


def test_fields_defaults_and_order_are_those_of_the_definition() -> None:
    assert [one.name for one in fields(Place)] == ["x", "y", "note", "z", "names"]
    assert Place(1, names=("a",)) == replace(Place(1), names=("a",))
    assert repr(Place(1)) == "Place(x=1, y=2, note='', z=3, names=())"
    assert Place.__match_args__ == ("x", "y", "note", "z")  # type: ignore[attr-defined]
    assert not hasattr(Place(1), "__dict__")
    assert Cell([1, 2]).total == 3
    assert Cell().values is not Cell().values
    assert Cell.total == 0
    assert not hasattr(Cell, "values")
    assert Point.count == 7


def test_frozen_instance_with_slots_is_pickled_without_being_assigned_to() -> None:
    code = "import pickle, sys; print(repr(pickle.loads(sys.stdin.buffer.read())))"
    for one in (Place(1, names=("a",)), Cell([1])):
        other = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(one), capture_output=True, check=True
        )
        assert other.stdout.decode().strip() == repr(one)


def show(standard: bool) -> None:
    """Prints what the data classes of tclint are, made by the standard library or here."""
    if standard:
        _dataclass.dataclass = dataclasses.dataclass  # type: ignore[misc]
    seen: dict[str, Any] = {}
    for module in pkgutil.walk_packages(tclint.__path__, "tclint."):
        if module.name.endswith("__main__"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if isinstance(cls, type) and hasattr(cls, "__dataclass_fields__"):
                seen[f"{cls.__module__}.{cls.__qualname__}"] = _facts(cls)
    print(*(f"{name}: {seen[name]}" for name in sorted(seen)), sep="\n")


def _facts(cls: type) -> list[object]:
    """What distinguishes a data class: fields, options, slots, and which attributes have which signature."""
    from inspect import signature

    attributes = {
        name: re.sub(" at 0x[0-9a-f]+", "", str(signature(value)))
        if isinstance(value := getattr(cls, name), FunctionType)
        else type(value)
        for name in sorted(vars(cls))
        if name not in ("__doc__", "__module__", "__replace__")
    }
    return [
        cls.__mro__,
        [re.sub(" at 0x[0-9a-f]+", "", repr(one)) for one in fields(cls)],
        getattr(cls, "__dataclass_params__", None),
        vars(cls).get("__slots__"),
        cls.__hash__ is None,
        attributes,
    ]


def test_every_data_class_of_tclint_is_as_the_standard_library_makes_it() -> None:
    ours, theirs = (
        subprocess.run(
            [sys.executable, "-c", f"import tests.test_dataclass as this; this.show({standard})"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for standard in (False, True)
    )
    assert len(ours) > 100
    assert [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other] == []
