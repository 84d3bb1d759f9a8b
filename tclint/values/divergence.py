"""Whether the lanes of a warp can go separate ways: what a predicate is in each lane, for numbers that can occur.

A predicate is uniform if its expression is (:attr:`~tclint.values.Values.uniformity`), and differs in every launch if the
index of the thread alone decides it (:attr:`~tclint.values.Values.mask`). For any other, :class:`Divergence` looks for an
execution in which two lanes differ (:mod:`~tclint.values.trials`): it makes up a launch that leads to the branch, moves
what the predicate compares to the number of a lane in the middle of the warp (:mod:`~tclint.values.steering`), and lets
words that each thread loads for itself differ. What it finds is a :class:`Split`, which states the numbers: without words
of their own, the lanes differ by their index alone, against a bound that the launch chooses. No split proves nothing.

The proofs of :mod:`tclint.verdicts.uniform` answer the opposite question, whether lanes never differ, by rules that trust no
expression. Neither answer follows from the other: what is neither proved nor found is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from tclint._dataclass import dataclass
from tclint.ir.cfg import CFG, Edge
from tclint.isa.special_registers import WARP, Triple
from tclint.values import UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.certainty import failing
from tclint.values.nodes import Compare, FloatConstant, Loaded, ParameterRead, SpecialRead, Unmodelled
from tclint.values.steering import equated, forced
from tclint.values.trials import FRACTION, TYPICAL, Made, Trial

__all__ = ["MAX_QUESTIONS", "Divergence", "Split"]

_ONE_DIMENSION = 256
"""The threads of a CTA of one dimension, of which a launch decides the number."""
_SHAPES: tuple[Triple, ...] = ((32, 8, 1), (16, 16, 1))
"""CTAs of more dimensions, of which a launch decides the shape: one whose rows are warps, and one with two rows in each warp."""
MAX_EXPRESSION = 400
"""Subexpressions of a predicate, before it is taken as unknown."""
MAX_COMPARISONS = 6
"""Comparisons of a predicate that are moved to a number in the middle of a warp."""
MAX_WARPS = 8
"""Warps that are tried where the index of the CTA decides in which one a bound lies."""
MAX_QUESTIONS = 64
"""Pairs of a branch and a block that are tried in one function."""
_WARPS = 8
"""Warps of a CTA that are compared."""
_SEEDS = 3
"""Choices of the words that each thread loads for itself."""
_STEERED = 12
"""Branches that are steered towards a block."""


@dataclass(frozen=True, slots=True)
class Split:
    """An execution in which some lanes of a warp reach an instruction and others do not."""

    trial: Trial
    reaching: int
    """The threads that execute the instruction, or execute it once more."""
    others: int
    """The other threads of their warp, as far as they reach the branch."""
    predicate: int
    """What decides it."""
    leaving: bool
    """Whether all lanes execute it, and the *others* then leave the loop around it."""

    @property
    def own(self) -> bool:
        """Whether words that each thread loads for itself decide it."""
        return self.trial.made.own

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Parameters that decide it, each with a number for which lanes part: those that had to be chosen, or else all."""
        values, chosen = self.trial.values, dict(self.trial.made.given)
        read = [
            v
            for v in _parts(values, self.predicate)
            if type(node := values.node(v)) is ParameterRead and node.size <= 4
        ]
        deciding = [v for v in read if v in chosen] or read
        numbers = [(v, self.trial.lanes(v)[0]) for v in deciding]
        return tuple((v, number) for v, number in numbers if number is not None)

    @property
    def of_any_launch(self) -> bool:
        """Whether lanes part in any launch that is large enough, whatever its parameters and words in memory are."""
        values = self.trial.values
        nodes = map(values.node, _parts(values, self.predicate))
        return not self.own and not any(type(node) is ParameterRead or type(node) is Loaded for node in nodes)

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """The numbers of threads along y and z that decide it, each with its register, where the kernel does not state them."""
        values = self.trial.values
        if values.function.threads is not None:
            return ()
        read = {
            node.name: v
            for v in _parts(values, self.predicate)
            if type(node := values.node(v)) is SpecialRead and node.name in ("%ntid.y", "%ntid.z")
        }
        numbers = [(name, self.trial.lanes(v)[0]) for name, v in sorted(read.items())]
        return tuple((name, number) for name, number in numbers if number is not None)

    def unless_multiple(self, edge: Edge) -> bool:
        """Whether lanes part exactly where the only bound is not a multiple of the warp size."""
        if self.own or len(self.bounds) != 1:
            return False
        value, trial = self.bounds[0][0], self.trial
        for number in (0, 1, 7, WARP - 1, WARP, 4 * WARP):
            other = Trial(trial.values, trial.cfg, trial.made.with_value(value, number))
            if (len(set(other.taken(edge))) > 1) is not bool(0 < number < WARP):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Question:
    """Where threads may part."""

    predicate: int
    """What decides it."""
    edge: Edge | None
    """The branch of which it is an edge; None: the guard of the instruction."""
    site: int
    """The instruction that only some execute."""
    threads: int
    """The threads that matter."""


class Divergence:
    """The branches of one function at which lanes of a warp can part."""

    def __init__(self, values: Values, cfg: CFG) -> None:
        self.values, self.cfg = values, cfg
        self._splits: dict[tuple[Edge | None, int, int], Split | None] = {}
        self._steered: dict[tuple[Made, int], Trial] = {}

    @cached_property
    def shapes(self) -> tuple[Triple, ...]:
        """Shapes of the CTA, in each of which lanes must part for a finding."""
        values = self.values
        if values.shape is not None and values.cta_size is not None:
            return (values.shape,)
        if values.one_dimensional:
            return ((min(values.threads, _ONE_DIMENSION), 1, 1),)
        row = self._row
        if row and row * 2 <= values.threads:
            return ((row, max(_ONE_DIMENSION // row, 2), 1),)
        return tuple(s for s in _SHAPES if s[0] * s[1] <= values.threads) or ((WARP, 1, 1),)

    @cached_property
    def _row(self) -> int:
        """The threads along x of a kernel that numbers its threads ``y * 32 + x``, and compares or divides their numbers.

        0 if it does not, or numbers them in different ways.
        """
        values, rows = self.values, set[int]()
        x, y = map(values.special, ("%tid.x", "%tid.y"))
        for use in values.function.uses:
            form = None if use.match is None else use.match.form
            if form is None or form.compute not in ("shr", "setp"):
                continue
            for site in use.sites:
                operands = values.function.instructions[site].operands
                number, by = (values.operand(o, site) for o in operands[-2:])
                terms, offset = values.linear(number)
                if len(terms) == 2 and not offset and values.constant_of(by) is not None:
                    factors = dict(terms)
                    if factors.get(x) == 1 and factors.get(y, 0) > 1:
                        rows.add(factors[y])
        return rows.pop() if len(rows) == 1 else 0

    def may_split(self, p: int, within: UniformityScope = UniformityScope.WARP) -> bool:
        """Whether *p* may differ *within* a group and is small enough to be tried: a test that costs little."""
        if self.values.uniformity(p) <= within:
            return False
        parts = self.values.subexpressions(p)
        return all(at < MAX_EXPRESSION for at, _ in enumerate(parts))

    def at_branch(self, edge: Edge, site: int, threads: int) -> Split | None:
        """How lanes of a warp in *threads* part at the branch of *edge*, so that only some execute *site*."""
        last = self.cfg.blocks[edge.source].end - 1
        match = self.values.function.instructions[last].match
        if match is None or match.modes.asserted_uniform:
            return None
        return self._found(edge, self.values.before(edge.predicate, last), site, threads)

    def between_warps(self, edge: Edge, site: int, threads: int) -> Split | None:
        """How whole warps among *threads* part at the branch of *edge*, so that only some execute *site*."""
        key = edge, -1 - self.cfg.block_of[site], ~threads
        if key not in self._splits:
            p = self.values.before(edge.predicate, self.cfg.blocks[edge.source].end - 1)
            tried = self._is_tried(p, site, UniformityScope.CTA)
            ask = Question(p, edge, site, threads)
            self._splits[key] = self._searched(ask, (False,), self._parted) if tried else None
        return self._splits[key]

    def at_guard(self, site: int, threads: int) -> Split | None:
        """How the guard of *site* lets only some lanes of a warp in *threads* execute it."""
        p = self.values.before(self.values.function.instructions[site].guard, site)
        return self._found(None, p, site, threads)

    def _found(self, edge: Edge | None, p: int, site: int, threads: int) -> Split | None:
        guarded = self.values.function.instructions[site].guard >= 0
        key = edge, site if edge is None or guarded else -1 - self.cfg.block_of[site], threads
        if key not in self._splits:
            tried = self._is_tried(p, site, UniformityScope.WARP)
            ask = Question(p, edge, site, threads)
            self._splits[key] = self._searched(ask, (False, True), self.parts) if tried else None
        return self._splits[key]

    def _is_tried(self, p: int, site: int, within: UniformityScope) -> bool:
        """Whether an execution is looked for in which *p*, on which *site* depends, differs *within* a group."""
        if not self.may_split(p, within):
            return False
        if len(self._splits) < MAX_QUESTIONS:
            return True
        self.gave_up(site)
        return False

    def gave_up(self, site: int) -> None:
        """Called for each question about *site* that is not answered, since the function has too many."""

    def _searched(
        self, ask: Question, words: Sequence[bool], parts: Callable[[Trial, Question], Split | None]
    ) -> Split | None:
        """An execution in which threads part, if there is one in each of the shapes; *words*: of each thread, too."""
        for own in words:
            found = list[Split]()
            for shape in self.shapes:
                trials = self.trials(ask.predicate, self.cfg.block_of[ask.site], ask.threads, shape, own)
                split = next(filter(None, (parts(trial, ask) for trial in trials)), None)
                if split is None:
                    break
                found.append(split)
            if len(found) == len(self.shapes):
                return found[0]
        return None

    # ------------------------------------------------------------ executions

    def trials(self, p: int, block: int, threads: int, shape: Triple, own: bool) -> Iterator[Trial]:
        """Executions that lead to *block*, in which lanes may differ in *p*."""
        by_cta = any(
            type(node) is SpecialRead and node.name.startswith("%ctaid")
            for node in map(self.values.node, _parts(self.values, p))
        )
        comparisons, typical = self._comparisons(p), self._typical(p)
        seen = set[Made]()
        for at, (first, mine) in enumerate(T.by_warp(threads & T.full(shape[0] * shape[1] * shape[2]))):
            if at >= (MAX_WARPS if by_cta and not own else 2):
                return
            lanes = [lane for lane in range(WARP) if mine >> first + lane & 1]
            for seed in range(_SEEDS if own and not at else 1):
                made = Made(shape, first // WARP, own, seed, typical)
                base = self.steered(Trial(self.values, self.cfg, made), block, lanes)
                yield base
                if own and not base.by_own_words:
                    return
                for each in self._moved(base, comparisons, lanes):
                    if each not in seen:
                        seen.add(each)
                        trial = self.steered(Trial(self.values, self.cfg, each), block, lanes)
                        yield trial

    def launches(self, site: int, threads: int) -> Iterator[Trial]:
        """Executions that lead to *site* in CTAs of different shapes, among them such as have several rows in a warp."""
        shapes = (
            self.shapes if self.values.shape is not None and self.values.cta_size is not None else _SHAPES
        )
        for shape in shapes:
            made = Made(shape, 0)
            trial = Trial(self.values, self.cfg, made)
            yield self.steered(trial, self.cfg.block_of[site], [t for t in range(WARP) if threads >> t & 1])

    def _comparisons(self, p: int) -> list[Compare]:
        """The comparisons that *p* is made of and that may differ between threads."""
        values = self.values
        found = [
            node
            for v in _parts(values, p)
            if type(node := values.node(v)) is Compare and values.uniformity(v) > UniformityScope.CTA
        ]
        return found[:MAX_COMPARISONS]

    def _typical(self, p: int) -> tuple[int, ...]:
        """Numbers that words in memory may be: those with which *p* compares, and those beside them."""
        values = self.values
        found = dict.fromkeys(TYPICAL)
        for v in _parts(values, p):
            node = values.node(v)
            if type(node) is FloatConstant and abs(node.number) < FRACTION:
                number = int(node.number * FRACTION)
                found |= dict.fromkeys((number - FRACTION, number, number + FRACTION))
            for side in node.operands if type(node) is Compare else ():
                constant = values.constant_of(side)
                if constant is not None:
                    found |= dict.fromkeys((constant - 1, constant, constant + 1))
        return tuple(found)

    def _moved(self, trial: Trial, comparisons: list[Compare], lanes: list[int]) -> Iterator[Made]:
        """What makes the sides of a comparison equal in a lane in the middle, or in the first one.

        What all lanes share often comes in steps larger than a warp, and is below what the first lane needs.
        """
        for node in comparisons:
            for lane in (lanes[len(lanes) // 2], lanes[0]):
                for side, other in (node.operands, node.operands[::-1]):
                    number = trial.lanes(other)[lane]
                    made = None if number is None else equated(trial, side, number, lane)
                    if made is not None:
                        yield made

    def steered(self, trial: Trial, block: int, lanes: list[int]) -> Trial:
        """The trial, or one like it in which some of *lanes* may reach *block*."""
        cfg, rank = self.cfg, self.cfg.rank
        edges = sorted(
            (e for e in cfg.control_dependences(block) if rank[e.source] < rank[block]),
            key=lambda e: rank[e.source],
        )
        for edge in edges[:_STEERED]:
            if edge.predicate < 0 or any(trial.reaching(block)[lane] != 0 for lane in lanes):
                continue
            there = [lane for lane in lanes if trial.reaching(edge.source)[lane] != 0]
            if not there or any(trial.taken(edge)[lane] != 0 for lane in there):
                continue
            p = self.values.before(edge.predicate, cfg.blocks[edge.source].end - 1)
            made = forced(trial, p, edge.value, there[len(there) // 2])
            if made is not None:
                trial = Trial(self.values, cfg, made)
        return trial

    # ------------------------------------------------------------ what lanes do in one

    def parts(self, trial: Trial, ask: Question) -> Split | None:
        """Which lanes of the warp of *trial* execute the instruction, and which do not."""
        yes, no, leaving = self._ways(trial, ask)
        if not yes or not no or self._fails(trial):
            return None
        reaching, others = (sum(1 << trial.first + lane for lane in some) for some in (yes, no))
        return Split(trial, reaching, others, ask.predicate, leaving)

    def _parted(self, trial: Trial, ask: Question) -> Split | None:
        """A warp that executes the instruction, and one that does not, with the numbers of *trial*."""
        reaching = others = leaving = 0
        x, y, z = trial.made.shape
        for first, _ in islice(T.by_warp(ask.threads & T.full(x * y * z)), _WARPS):
            other = Trial(self.values, self.cfg, replace(trial.made, warp=first // WARP))
            yes, no, leaves = self._ways(other, ask)
            whole = T.full(WARP) << first & ask.threads
            if yes and not no:
                reaching |= whole
            elif no and not yes:
                others, leaving = others | whole, leaving | leaves
        if not reaching or not others or self._fails(trial):
            return None
        return Split(trial, reaching, others, ask.predicate, bool(leaving))

    def _fails(self, trial: Trial) -> bool:
        """Whether a lane ends the launch by a trap or a failed assertion, which excludes the numbers of *trial*."""
        return any(1 in trial.reaching(block) for block in self._failures)

    @cached_property
    def _failures(self) -> frozenset[int]:
        return failing(self.cfg)

    def _ways(self, trial: Trial, ask: Question) -> tuple[list[int], list[int], bool]:
        """The lanes that execute an instruction, or once more, those that do not, and whether these leave its loop."""
        edge, site = ask.edge, ask.site
        there = self.cfg.block_of[site] if edge is None else edge.source
        lanes = [
            lane
            for lane, here in enumerate(trial.reaching(there))
            if here != 0 and ask.threads >> trial.first + lane & 1
        ]
        executing = trial.executing(site)
        taken, leaving = executing, False
        if edge is not None:
            taken = trial.taken(edge)
            leaving = self._leaves_loop(edge, site) and all(executing[lane] != 0 for lane in lanes)
        yes = [lane for lane in lanes if taken[lane] == 1 and executing[lane] != 0]
        no = [lane for lane in lanes if taken[lane] == 0 and (leaving or executing[lane] == 0)]
        return yes, no, leaving

    def _leaves_loop(self, edge: Edge, site: int) -> bool:
        """Whether the lanes that do not take *edge* leave the loop in which others execute *site* once more."""
        cfg, block = self.cfg, self.cfg.block_of[site]
        loop = next((cfg.loops[h] for h in cfg.enclosing_loops(edge.source, block)), None)
        return (
            loop is not None
            and edge.target in loop
            and all(e.target not in loop for e in cfg.successors[edge.source] if e != edge)
        )


def _parts(values: Values, p: int) -> list[int]:
    """What *p* is computed from, also by instructions that no expression models: shuffles, floating-point comparisons."""
    found, work = dict[int, None](), [p]
    while work and len(found) < MAX_EXPRESSION:
        fresh = [v for v in values.subexpressions(work.pop()) if v not in found]
        found |= dict.fromkeys(fresh)
        for node in map(values.node, fresh):
            if type(node) is Unmodelled and node.register >= 0:
                operands = values.function.instructions[node.site].operands[1:]
                work += [values.operand(operand, node.site) for operand in operands]
    return list(found)
