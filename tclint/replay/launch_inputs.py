"""The words of a launch, in parameters and in memory, that values of the kernel are computed from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Memory
from tclint.replay.hypotheses import GRID, MEMORY, LaunchWord
from tclint.replay.shared_stores import SharedStores
from tclint.values.nodes import AddressOf, Compare, Loaded, Logic, Negation, ParameterRead, Phi, SpecialRead

__all__ = ["LaunchInputs"]

_CONDITIONS = frozenset((Compare, Negation, Logic))


class LaunchInputs:
    """The words of the launch, by the values and the loads that have them."""

    def __init__(self, model: KernelModel, shared_stores: SharedStores) -> None:
        self.model = model
        self.shared_stores = shared_stores
        self._load_words: dict[int, tuple[Hashable, int]] = {}
        self._buffers: dict[int, int] = {}
        self._pointers: dict[frozenset[int], int] = {}

    def decide(self, *made: int) -> bool:
        """Whether values are computed from the launch: from parameters, or from the contents of global memory.

        Or they are loaded from shared memory where such a value was stored. A value that the launch only selects by a
        condition does not count: each choice is one of a real launch.
        """
        values, seen, left = self.model.values, set[int](), list(made)
        while left:
            parts = values.subexpressions(*left, until=lambda v: type(values.node(v)) in _CONDITIONS)
            left = []
            for node in map(values.node, parts):
                if type(node) is ParameterRead:
                    return True
                if type(node) is Loaded:
                    if not node.space.startswith(".shared"):
                        return True
                    if node.site not in seen:
                        seen.add(node.site)
                        left += self.shared_stores.values(node.site)
        return False

    def words(self, *made: int) -> frozenset[LaunchWord]:
        """The words of the launch that values are computed from, and those that select between constants."""
        return frozenset().union(*self.words_of(map(self.model.values.representative, made)).values())

    def words_of(self, made: Iterable[int]) -> dict[int, frozenset[LaunchWord]]:
        """The same for each of the values *made*, in one walk over all that they are computed from."""
        users: dict[int, list[int]] = {value: [] for value in made}
        numbers, held, work = dict[LaunchWord, int](), dict[int, int](), [*users]
        wanted = tuple(users)
        while work:
            value = work.pop()
            parts, words = self._inputs_of(value)
            held[value] = sum(1 << numbers.setdefault(word, len(numbers)) for word in words)
            for part in map(self.model.values.representative, parts):
                if part not in users:
                    users[part] = []
                    work.append(part)
                users[part].append(value)
        # Words are bits here: what a value holds is handed to its users until none of them gains any.
        work = [value for value, own in held.items() if own]
        while work:
            mine = held[value := work.pop()]
            for user in users[value]:
                if mine & ~held[user]:
                    held[user] |= mine
                    work.append(user)
        return {
            value: frozenset(word for word, number in numbers.items() if held[value] >> number & 1)
            for value in wanted
        }

    def _inputs_of(self, value: int) -> tuple[Iterable[int], tuple[LaunchWord, ...]]:
        """What a value is computed from, or what selects it if it is a choice of constants; and the words of the
        launch that it is.
        """
        values = self.model.values
        node = values.node(value)
        words: tuple[LaunchWord, ...] = ()
        if type(node) is Phi:
            joined = values.arguments(value)
            flag = all(values.constant_of(v) is not None for v in joined)
            return self._conditions(node.block) if flag else joined, words
        if type(node) is Loaded:
            if node.space.startswith(".shared"):
                return (*node.operands, *self.shared_stores.values(node.site)), words
            words = (MEMORY,)
        elif type(node) is SpecialRead and node.name.startswith(("%nctaid", "%nclusterid")):
            words = (GRID,)
        elif type(node) is ParameterRead:
            base, offset = values.linear(node.address)
            words = (
                LaunchWord(base, offset >> 2),
                *((LaunchWord(base, (offset >> 2) + 1, high=True),) if node.size == 8 else ()),
            )
        return node.operands, words

    def _conditions(self, block: int) -> Iterable[int]:
        """The conditions that decide by which edge a block is entered."""
        cfg, values = self.model.cfg, self.model.values
        for edge in cfg.predecessors[block]:
            for c in (*cfg.control_dependences(edge.source), edge):
                if c.predicate >= 0:
                    yield values.before(c.predicate, cfg.blocks[c.source].end - 1)

    def word(self, site: int) -> tuple[Hashable, int]:
        """What a step loads of the launch: a base, and an offset in bytes."""
        if site not in self._load_words:
            instruction = self.model.instruction(site)
            assert instruction.match is not None
            operand = next(o for o in instruction.operands if isinstance(o, Memory))
            base, offset = self.model.values.linear(self.model.values.operand(operand, site))
            self._load_words[site] = (
                (base, offset) if instruction.match.space.startswith(".param") else (MEMORY, offset)
            )
        return self._load_words[site]

    @cached_property
    def recorded(self) -> dict[LaunchWord, int]:
        """The words of the parameters that the kernel loads, in a recorded launch; none without one."""
        recorded, values, words = self.model.recorded, self.model.values, dict[LaunchWord, int]()
        if recorded is None:
            return words
        names = {p.name: n for n, p in enumerate(self.model.function.parameters)}
        for site, instruction in enumerate(self.model.function.instructions):
            operand = next((o for o in instruction.operands if isinstance(o, Memory)), None)
            if (
                operand is None
                or instruction.match is None
                or not instruction.match.space.startswith(".param")
            ):
                continue
            base, offset = values.linear(values.operand(operand, site))
            node = values.node(base[0][0]) if len(base) == 1 and base[0][1] == 1 else None
            if type(node) is AddressOf and node.name in names and offset >= 0:
                data = recorded.values[names[node.name]]
                for at in range(offset & -4, min(offset + 64, len(data)), 4):  # no load is longer
                    words[LaunchWord(base, at >> 2)] = int.from_bytes(data[at : at + 4], "little")
        return words

    def buffer(self, site: int) -> int:
        """A number for the pointers of the launch from which the address of a load is computed: that of the buffer."""
        if site not in self._buffers:
            values = self.model.values
            operand = next(o for o in self.model.instruction(site).operands if isinstance(o, Memory))
            terms, _ = values.linear(values.operand(operand, site))
            pointers = frozenset(t for t, _ in terms if type(values.node(t)) is ParameterRead)
            self._buffers[site] = self._pointers.setdefault(pointers, len(self._pointers))
        return self._buffers[site]
