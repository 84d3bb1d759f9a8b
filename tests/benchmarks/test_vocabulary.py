"""The words that a ptxas knows, and those of them that the table lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ptxas import Ptxas
from benchmarks.vocabulary import KINDS, known, lacking, newest, pieces, words
from tests.tools.ptxas import find_ptxas


def test_a_word_is_found_at_the_end_of_a_longer_one_too() -> None:
    found = pieces(b"\x01\x02clmad.lo\0fence.proxy.alias\0%locality_domain_id\0x::y\0")
    assert {"clmad.lo", ".alias", "fence.proxy.alias", "%locality_domain_id"} <= found
    assert ".proxy" not in found


def test_what_no_form_has_is_lacking() -> None:
    nothing: dict[str, set[str]] = {kind: set() for kind in KINDS}
    found = {
        **nothing,
        "opcode": {"clmad.lo", "braid.tight", "add.tight", "tcgen05.fence"},
        "modifier": {".ftz", ".tight", ".multicast"},
        "special register": {"%tid", "%braid"},
        "keyword": {".maxntid", ".weak", ".braided"},
    }
    assert lacking(found) == {
        "opcode": {"braid.tight", "add.tight"},
        "modifier": {".tight"},
        "special register": {"%braid"},
        "keyword": {".braided"},
    }


@pytest.mark.slow
def test_the_table_has_the_words_of_ptxas() -> None:
    ptxas = Ptxas(Path(find_ptxas()))
    found = words(ptxas, newest(ptxas), pieces(ptxas.path.read_bytes()))
    assert not any(lacking(found).values())
    assert len(found["opcode"]) > 200
    assert {".no_membermask_overlap", ".cta_group::2"} <= found["modifier"] & known()["modifier"]
