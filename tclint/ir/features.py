"""The features of statements that are no instructions: linkage, declarations, pragmas, and so on."""

from __future__ import annotations

from collections.abc import Iterator

from tclint._pattern import pattern
from tclint.ir.declarations import ONE_REGISTER
from tclint.ir.nodes import DECIMAL, FeatureUse
from tclint.ir.operands import abnormal, clean, only_short_integers, overflows
from tclint.isa.features import FeatureSpec, feature, used
from tclint.isa.target import Version

__all__ = ["FEATURED", "note"]

FEATURED = {
    "pragma_directive": "pragma",
    "call_prototype": "callprototype",
    "call_targets": "calltargets",
    "alias_directive": "alias",
    "file_directive": "file",
    "section_directive": "section",
    "loc_intermediate_directive": "loc-intermediate",
    "source_section_directive": "source-section",
    "address_size_directive": "address-size",
}
"""Node type -> the kind of statement whose features it has; a pragma outside functions has a kind of its own."""
_LONG = pattern(r"(?<![\w$%.])(?:0[xX][\da-fA-F]{17,}|0[bB][01]{65,}|\d{20,})(?=U?(?![\w.]))")
"""An integer constant that may have more than 64 bits."""
_LEAST_DIGITS = 17
"""The least that such a constant has: tables of thousands of shorter ones are not searched."""
_EXPONENT = pattern(rf"(?<![\w$.%])(?=[\d.]+[eE][-+]?\d{{3}})(?:{DECIMAL})(?![\w$])")
"""A floating-point constant that may be no normal double."""
_WORD = pattern(r"\.[\w$]{1,40}")
_DECLARING = ("variable", "parameter", "initial")


def note(
    found: list[FeatureUse],
    kind: str,
    text: str,
    span: tuple[int, int],
    version: Version | None,
    base: int = 0,
) -> None:
    """Add the features of a statement of *kind* to *found*.

    *span* is its position in *text*, the whole module; the recorded positions are relative to *base*.
    """
    start, end = span
    for part, spelled in _parts(kind, text[start:end]):
        if part == "initial" and only_short_integers(spelled):
            continue
        for spec in used(part, spelled, version or (0, 0)):
            found.append(FeatureUse(spec, start - base, end - base, _refused_word(spec, spelled)))
        long = part.endswith(_DECLARING) and max(map(len, spelled.replace(",", " ").split()), default=0)
        if long >= _LEAST_DIGITS and any(overflows(match[0]) for match in _LONG.finditer(spelled)):
            found.append(FeatureUse(feature("constant of more than 64 bits"), start - base, end - base))
        if part == "initial" and any(abnormal(match[0]) for match in _EXPONENT.finditer(spelled)):
            found.append(
                FeatureUse(feature("constant that is not a normal double"), start - base, end - base)
            )


def _refused_word(spec: FeatureSpec, text: str) -> str:
    """The word of a statement for which ptxas refuses the feature; empty if it does not, or if that is no single word."""
    match = spec.pattern.search(text) if spec.refused and spec.pattern is not None else None
    return match[0] if match is not None and _WORD.fullmatch(match[0]) else ""


def _parts(kind: str, text: str) -> Iterator[tuple[str, str]]:
    """The parts of a statement that have features of their own: the kind of each, and its text without comments."""
    if kind == "variable" and (register := ONE_REGISTER.fullmatch(text)):
        yield kind, f".reg {register[1]} %r;"  # whatever its name is
        return
    text = clean(text) if "/" in text and kind != "file" else text
    if kind.endswith("variable") and "=" in text:
        head, _, initial = text.partition("=")
        yield kind, f"{head}="
        yield "initial", initial
    else:
        yield kind, text
