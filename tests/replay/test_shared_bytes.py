from __future__ import annotations

import pytest

from tclint.replay.accesses import CTA_STRIDE
from tclint.replay.shared_bytes import SharedBytes


@pytest.fixture
def stored() -> SharedBytes:
    memory = SharedBytes()
    memory.store(16, 0x44332211, 4)
    return memory


@pytest.mark.parametrize(("address", "size", "value"), [(16, 4, 0x44332211), (17, 2, 0x3322), (19, 1, 0x44)])
def test_the_lowest_byte_comes_first(stored: SharedBytes, address: int, size: int, value: int) -> None:
    assert stored.load(address, size) == value


@pytest.mark.parametrize(("address", "size"), [(15, 2), (18, 4), (CTA_STRIDE + 16, 4)])
def test_a_number_with_a_byte_that_was_not_stored_is_unknown(
    stored: SharedBytes, address: int, size: int
) -> None:
    assert stored.load(address, size) is None


def test_an_unknown_number_makes_only_its_own_bytes_unknown(stored: SharedBytes) -> None:
    stored.store(17, None, 1)
    assert (stored.load(16, 1), stored.load(17, 1), stored.load(18, 2)) == (0x11, None, 0x4433)


@pytest.mark.parametrize(("size", "left"), [(2, 0x4433), (None, None)])
def test_without_a_size_all_contiguous_bytes_are_invalid(
    stored: SharedBytes, size: int | None, left: int | None
) -> None:
    stored.store(24, 7, 4)
    stored.invalidate(16, size)
    assert stored.load(16, 2) is None
    assert stored.load(18, 2) == left
    assert stored.load(24, 4) == 7  # bytes between were never stored
