from __future__ import annotations

from time import perf_counter

import pytest

from tclint.findings.mangled import source_name

NAMES = [
    ("k", "k"),
    ("_Z4gemmPKfPfi", "gemm"),
    ("_ZN6matrix10transposedIfLi16EEEvPKT_PS1_i", "matrix::transposed<float, 16>"),
    ("_ZN2ns1kILin3ELb1EVKtEEvPT1_NS_1VIXT_ES2_EE", "ns::k<-3, true, unsigned short const volatile>"),
    ("_ZN2ns4packIJiPfEEEvDpT_", "ns::pack<int, float*>"),
    ("_ZN2ns4packIJEEEvDpT_", "ns::pack<>"),
    ("_ZN2ns2enILNS_1EE1EEEvv", "ns::en<(ns::E)1>"),
    ("_ZN2ns4callIZ4hostvEUlvE_EEvT_", "ns::call<host::{lambda#1}>"),
    ("_ZN2ns2fpIXadL_ZNS_1gERiEEEEvv", "ns::fp<&ns::g>"),
    ("_ZN2ns12_GLOBAL__N_14anonERA4_f", "ns::(anonymous namespace)::anon"),
    ("_ZN2ns4refsIPA3_iEEvT_", "ns::refs<int (*) [3]>"),
    ("_ZN2ns4refsIPFvifEEEvT_", "ns::refs<void (*)(int, float)>"),
    ("_ZZ4gemmPfE4tile", "gemm::tile"),
    ("_ZN2ns1AIiEC2Ev", "ns::A<int>::A"),
    ("_ZN2ns1AIiED0Ev", "ns::A<int>::~A"),
    ("_ZN2nsplERKNS_1AES2_", "ns::operator+"),
    ("_ZN2nsooERKNS_1AES2_", "ns::operator||"),
    ("_ZSt4moveIiEvT_", "std::move<int>"),
    ("_ZN1a1kINS_1bINS_1cENS1_IS2_dEEEEEEvT_", "a::k<a::b<a::c, a::b<a::c, double>>>"),
]
"""Mangled names, and what c++filt makes of them but for the parameters of functions."""


@pytest.mark.parametrize(("mangled", "expected"), NAMES)
def test_names(mangled: str, expected: str) -> None:
    assert source_name(mangled) == expected


@pytest.mark.parametrize(
    "mangled",
    [
        "",
        "_Z",
        "_Z9",
        "_Z0",
        "_ZN",
        "_ZN1aE1",
        "_Z1fIXplLi1ELi2EEEvv",
        "_Z1fILb2EEvv",
        "_Z1fIS_S0_EvT_",
        "_Z1fIT_EvS_",
    ],
)
def test_a_name_that_is_not_understood_stays_as_it_is(mangled: str) -> None:
    assert source_name(mangled) in (mangled, "a")


def test_every_prefix_of_a_name_is_answered() -> None:
    for mangled, _ in NAMES:
        for end in range(len(mangled)):
            assert isinstance(source_name(mangled[:end]), str)


def test_hostile_names_take_little_time_and_memory() -> None:
    doubled = "_Z1fI" + "1aIii" + "".join(f"S{'' if not n else n - 1}_" * 2 for n in range(9)) + "EEvv"
    nested = "_Z1f" + "I1a" * 1200 + "E" * 1200
    pointers = "_Z1f" + "I" + "P" * 3900 + "iE"
    pairs = (
        "_Z1fI"
        + "N1a1b"
        + "I"
        + "".join(f"NS_1bI{s}{s}EE" for s in ("S0_", "S1_", "S2_", "S3_") * 200)
        + "EEEvv"
    )
    began = perf_counter()
    for name in (doubled, nested, pointers, pairs):
        assert len(source_name(name)) < 50_000
    assert perf_counter() - began < 5
