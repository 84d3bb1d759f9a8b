"""Checks of cluster launch control: responses read too early, or taken for what they are not (PTX ISA 9.7.13.17, .18)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, path_avoiding
from tclint.checks import Hit, Mark, RuleId, check
from tclint.dataflow import Path
from tclint.ir.nodes import registers
from tclint.values import PathCondition
from tclint.values import thread_masks as T

CL004 = RuleId("CL004")


@check(CL004, needs="clusterlaunchcontrol", analyses=(HappensBefore,))
def response_misuse(model: KernelModel) -> Iterator[Hit]:
    """The response of a try_cancel decoded unasked, read unwaited, or asked for after the last one."""
    requests = model.sites("clc-request")
    asks, decodes = _queries(model)
    if not model.function.entry:
        return
    for hit in (
        _decoded_unasked(
            model, [ask for ask in asks if any(True for _ in model.transitive_users(ask))], decodes
        ),
        _read_unwaited(model, requests, _loads(model, [*asks, *decodes])),
        _asked_again(model, requests, asks),
    ):
        if hit is not None:
            yield hit


def _queries(model: KernelModel) -> tuple[list[int], list[int]]:
    """The queries whether a cluster was cancelled, and those for the id of its first CTA."""
    asks: list[int] = []
    decodes: list[int] = []
    for site in model.sites("clc-query"):
        match = model.instruction(site).match
        assert match is not None
        (asks if ".is_canceled" in match.modifiers else decodes).append(site)
    return asks, decodes


def _decoded_unasked(model: KernelModel, asks: list[int], decodes: list[int]) -> Hit | None:
    """An id taken from a response although nothing asks, before or behind, whether there is one, and looks at the answer."""
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
            message="takes the id of a cancelled cluster from a response without asking whether the request succeeded: "
            "undefined when it failed",
            count=len(decodes),
            help="execute clusterlaunchcontrol.query_cancel.is_canceled first, and this only where it gives true",
            about=frozenset(decodes),
        )
    return None


def _read_unwaited(model: KernelModel, requests: list[int], loads: dict[int, int]) -> Hit | None:
    """A load of the response on a way from the request that no wait for its mbarrier interrupts."""
    values = model.values
    for site in requests:
        place = model.value(site, "destination")
        if place is None:
            continue
        reads = [i for i, address in loads.items() if values.linear(address) == values.linear(place)]
        told = model.fact(HappensBefore).completed((site,))
        path = path_avoiding(model, site, T.full(values.threads), reads, told).witness if reads else None
        if path is not None:
            role = model.describe_threads(path.threads)
            return CL004.hit(
                site=path.end,
                message="reads the response of clusterlaunchcontrol.try_cancel before it has arrived: "
                "nothing waits for the mbarrier of the request",
                steps=(
                    Mark(site, "the request starts here, and is answered at some later time", role=role),
                    Mark(path.end, "reads the response", role=role),
                ),
                help="wait for the phase of the mbarrier that the request completes before this load",
                about=frozenset((site,)),
            )
    return None


def _loads(model: KernelModel, queries: list[int]) -> dict[int, int]:
    """The loads that the responses decoded come from, each with its address."""
    values = model.values
    decoded = (value for q in queries if (value := model.value(q, "source")) is not None)
    whole = values.subexpressions(*decoded, until=lambda v: values.node(v)[0] not in ("pack", "part"))
    return {node[1]: node[3] for node in map(values.node, whole) if node[0] == "load"}


def _asked_again(model: KernelModel, requests: list[int], asks: list[int]) -> Hit | None:
    """A request on a way on which the last one is known to have failed."""
    values = model.values
    ends = {*asks, *calls(model)}
    for ask in asks:
        answer = registers(model.instruction(ask).operands[0])
        if not answer:
            continue  # no register takes it
        said = values.before(answer[0], ask + 1)
        facts = values.refine(said, False, model.views.context_of(ask).facts)
        path = path_avoiding(model, ask, T.full(values.threads), requests, ends, facts).witness
        if path is not None and _taken_when_failed(model, path, said, facts):
            role = model.describe_threads(path.threads)
            return CL004.hit(
                site=path.end,
                message="requests another cluster although an earlier request has failed: undefined, as there is none left",
                steps=(
                    Mark(ask, "is_canceled gives false", role=role),
                    Mark(path.end, "requests again", role=role),
                ),
                help="leave the loop where is_canceled gives false",
                about=frozenset((path.end,)),
            )
    return None


def _taken_when_failed(model: KernelModel, path: Path, said: int, facts: PathCondition) -> bool:
    """Whether the answer decides a branch of the path, and no other may depend on it.

    Roles hand the answer on in shared memory, so whatever is loaded may be the answer.
    """
    values = model.values
    along, told = values.along(path.edges, frozenset()), False
    for k, edge in enumerate(path.edges):
        decided = model.reachability.edge_predicate(edge)
        if decided is None:
            continue
        p = along.walk(decided, k)
        told = told or said in (p, values.negate(p))
        truth = values.entails(p, facts)
        if truth is (not edge.value) or (truth is None and not _unrelated(model, p)):
            return False
    return told


def _unrelated(model: KernelModel, p: int) -> bool:
    """Whether a predicate tells of the thread index, an election or a phase, and so of no response."""
    values = model.values
    node = values.node(p)
    if node[0] == "not":
        node = values.node(node[1])
    phase = node[0] == "unknown" and model.instruction(node[1]).event == "mbarrier-wait"
    return phase or node[0] == "elect" or values.mask(p) is not None
