"""Checks of cluster launch control: responses that are read too early or decoded unchecked, and requests after a failed
one (PTX ISA 9.7.13.17, 9.7.13.18)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, path_avoiding
from tclint.checks import Hit, Mark, RuleId, check
from tclint.dataflow import Path
from tclint.ir.nodes import registers
from tclint.isa.effects import Barrier, Query
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.nodes import Elected, Loaded, Negation, Packed, PartOf, Unmodelled

CL004 = RuleId("CL004")


@check(CL004, analyses=(HappensBefore,))
def response_misuse(model: KernelModel) -> Iterator[Hit]:
    """Report responses of try_cancel that are decoded unchecked or read unawaited, and requests after a failed one."""
    requests = model.sites(Query.CANCEL)
    asks, decodes = _queries(model)
    if not model.function.entry:
        return
    for hit in (
        _decoded_unchecked(
            model, [ask for ask in asks if any(True for _ in model.transitive_users(ask))], decodes
        ),
        _read_unwaited(model, requests, _loads(model, [*asks, *decodes])),
        _asked_again(model, requests, asks),
    ):
        if hit is not None:
            yield hit


def _queries(model: KernelModel) -> tuple[list[int], list[int]]:
    """The ``is_canceled`` queries, and those for the id of the first CTA."""
    asks: list[int] = []
    decodes: list[int] = []
    for site in model.sites(Query.CANCELLED):
        match = model.instruction(site).match
        assert match is not None
        (asks if match.modes.tests_cancellation else decodes).append(site)
    return asks, decodes


def _decoded_unchecked(model: KernelModel, asks: list[int], decodes: list[int]) -> Hit | None:
    """The finding about a CTA id that is decoded with none of the queries *asks* before or after it; or None."""
    every = T.full(model.values.threads)
    ends = {*asks, *calls(model)}
    for site in decodes:
        if (
            any(model.reaches(site, a) for a in asks)
            or path_avoiding(model, -1, every, (site,), ends).witness is None
        ):
            continue
        return CL004.hit(
            site=site,
            message=f"{model.name(site)} decodes the CTA id from a response without checking that the request succeeded: "
            "the result is undefined if it failed",
            count=len(decodes),
            help="execute clusterlaunchcontrol.query_cancel.is_canceled first, and this only if it returns true",
            about=frozenset(decodes),
        )
    return None


def _read_unwaited(model: KernelModel, requests: list[int], loads: dict[int, int]) -> Hit | None:
    """The finding about a load of the response on a path from the request without a wait for its mbarrier; or None."""
    values = model.values
    for site in requests:
        destination = model.value(site, "destination")
        if destination is None:
            continue
        reads = [i for i, address in loads.items() if values.linear(address) == values.linear(destination)]
        observers = model.fact(HappensBefore).completed((site,))
        path = path_avoiding(model, site, T.full(values.threads), reads, observers).witness if reads else None
        if path is not None:
            role = model.describe_threads(path.threads)
            return CL004.hit(
                site=path.end,
                message=f"{model.name(path.end)} reads the response of clusterlaunchcontrol.try_cancel before it has arrived: "
                "no intervening wait for the mbarrier of the request",
                steps=(
                    Mark(site, "issues the request, which completes asynchronously", role=role),
                    Mark(path.end, "reads the response", role=role),
                ),
                help="wait for the phase that the request completes on its mbarrier before this load",
                about=frozenset((site,)),
            )
    return None


def _loads(model: KernelModel, queries: list[int]) -> dict[int, int]:
    """The loads of the responses that *queries* decode, each with its address."""
    values = model.values
    decoded = (value for q in queries if (value := model.value(q, "source")) is not None)
    whole = values.subexpressions(*decoded, until=lambda v: not isinstance(values.node(v), Packed | PartOf))
    return {node.site: node.address for node in map(values.node, whole) if type(node) is Loaded}


def _asked_again(model: KernelModel, requests: list[int], asks: list[int]) -> Hit | None:
    """The finding about a request on a path on which an earlier one is known to have failed; None without one."""
    values = model.values
    ends = {*asks, *calls(model)}
    for ask in asks:
        answer = registers(model.instruction(ask).operands[0])
        if not answer:
            continue  # the result is not written to a register
        result = values.after(answer[0], ask)
        facts = values.refine(result, False, model.views.context_of(ask).facts)
        path = path_avoiding(model, ask, T.full(values.threads), requests, ends, facts).witness
        if path is not None and _taken_when_failed(model, path, result, facts):
            role = model.describe_threads(path.threads)
            return CL004.hit(
                site=path.end,
                message=f"{model.name(path.end)} requests another cluster although an earlier request has failed, which is undefined "
                "behaviour: "
                "no cluster is left to cancel",
                steps=(
                    Mark(ask, "is_canceled returns false", role=role),
                    Mark(path.end, "requests again", role=role),
                ),
                help="exit the loop when is_canceled returns false",
                about=frozenset((path.end,)),
            )
    return None


def _taken_when_failed(model: KernelModel, path: Path, result: int, facts: PathCondition) -> bool:
    """True if *result*, that of the query, decides a branch of the path, and no other branch may depend on it.

    Roles pass the result on in shared memory, so any loaded value may be the result.
    """
    values = model.values
    along, tested = values.along(path.edges, frozenset()), False
    for k, edge in enumerate(path.edges):
        decided = model.reachability.edge_predicate(edge)
        if decided is None:
            continue
        p = along.walk(decided, k)
        tested = tested or result in (p, values.negate(p))
        truth = values.entails(p, facts)
        if truth is (not edge.value) or (truth is None and not _unrelated(model, p)):
            return False
    return tested


def _unrelated(model: KernelModel, p: int) -> bool:
    """True if *p* depends on the thread index, an election or a phase, and therefore on no response."""
    values = model.values
    node = values.node(p)
    if type(node) is Negation:
        node = values.node(node.operand)
    phase = type(node) is Unmodelled and model.instruction(node.site).effects.awaits is Barrier.MBARRIER
    return phase or type(node) is Elected or values.mask(p) is not None
