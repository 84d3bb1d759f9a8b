"""What the bytes and the threads of an access to shared memory depend on."""

from __future__ import annotations

from tclint.analyses.execution import ExecutionGuarantee
from tclint.analyses.model import KernelModel
from tclint.ir.nodes import Variable
from tclint.replay.dispatch import Dispatch
from tclint.replay.loops import Loops
from tclint.values.nodes import AddressOf, Loaded, ParameterRead, Unmodelled

__all__ = ["SharedAccesses"]


class SharedAccesses:
    """The accesses to shared memory, by instruction."""

    def __init__(self, model: KernelModel, loops: Loops, dispatch: Dispatch) -> None:
        self.model = model
        self._loops = loops
        self._dispatch = dispatch
        self._independent: dict[int, bool] = {}
        self._leaving: dict[int, bool] = {}
        self._arrays: dict[int, tuple[str, int] | None] = {}
        self._variables: dict[int, Variable | None] = {}

    def is_strong(self, site: int) -> bool:
        """Whether an access is strong, so that threads may synchronise by it (8.6)."""
        match = self.model.instruction(site).match
        return match is not None and match.strong

    def launch_independent(self, site: int) -> bool:
        """Whether neither the launch nor memory decides the shared memory that an access covers."""
        if site not in self._independent:
            values, model = self.model.values, self.model
            where = [access.address for access in model.shared.accesses(site)]
            if (size := model.value(site, "bytes")) is not None:
                where.append(size)
            made = map(values.node, values.subexpressions(*where))
            self._independent[site] = not any(
                isinstance(node, ParameterRead | Loaded | Unmodelled) for node in made
            )
        return self._independent[site]

    def indexed_by_memory(self, site: int) -> bool:
        """Whether what global memory holds decides the shared memory that an access covers."""
        values = self.model.values
        made = values.subexpressions(*(access.address for access in self.model.shared.accesses(site)))
        return any(
            type(n) is Loaded and not n.space.startswith((".shared", ".param"))
            for n in map(values.node, made)
        )

    def threads_known(self, site: int) -> bool:
        """Whether neither the launch nor memory selects the threads that execute an instruction.

        A bound from the launch may admit a single one. Those that static analysis accepts count as known.
        """
        cfg, values, seen = self.model.cfg, self.model.values, set[int]()
        if self.model.fact(ExecutionGuarantee).certainly(site):
            return True
        work = [cfg.block_of[site]]
        while work:
            for edge in cfg.control_dependences(work.pop()):
                if edge.source not in seen:
                    seen.add(edge.source)
                    work.append(edge.source)
                    last = cfg.blocks[edge.source].end - 1
                    if edge.predicate < 0 or self._dispatch.compared(values.before(edge.predicate, last)):
                        return False
        return True

    def uses_result(self, site: int) -> bool:
        """Whether what an instruction reads reaches memory, an event or a branch on every path.

        A loop may read ahead for an iteration that it does not execute. Only as far as one path leads on is looked at.
        """
        cfg, derived = self.model.cfg, set(self.model.instruction(site).writes)
        block, start, passed = cfg.block_of[site], site + 1, set[int]()
        while derived and block not in passed:
            passed.add(block)
            for i in range(start, cfg.blocks[block].end):
                instruction = self.model.instruction(i)
                reads = not derived.isdisjoint(instruction.reads) or instruction.guard in derived
                form = None if instruction.match is None else instruction.match.form
                if reads and (form is None or form.memory or form.event or instruction.flow):
                    return True
                derived = (
                    derived.union(instruction.writes) if reads else derived.difference(instruction.writes)
                )
            edges = cfg.successors[block]
            if len(edges) != 1:
                return False
            block = edges[0].target
            start = cfg.blocks[block].start
        return False

    def array(self, site: int) -> tuple[str, int] | None:
        """The variable of shared memory that an access is in, and its size, if threads choose the bytes by their index alone.

        None: there is no such variable, the launch decides its size or the bytes, or a loop does.
        """
        if site not in self._arrays:
            self._arrays[site] = self._indexed_by_thread(site) if self.launch_independent(site) else None
        return self._arrays[site]

    def _indexed_by_thread(self, site: int) -> tuple[str, int] | None:
        values, accesses = self.model.values, self.model.shared.accesses(site)
        if len(accesses) != 1:
            return None
        address = accesses[0].address
        symbols = [
            (t, node.name)
            for t, factor in values.linear(address)[0]
            if factor == 1 and type(node := values.node(t)) is AddressOf
        ]
        if len(symbols) != 1 or any(values.is_phi(v) for v in values.subexpressions(address)):
            return None
        ((symbol, name),) = symbols
        size = self.model.size(symbol)
        return (name, size) if size else None

    def variable(self, site: int) -> Variable | None:
        """The only variable of shared memory that the address of an access is an offset of; None if there is none."""
        if site not in self._variables:
            values, shared = self.model.values, self.model.shared
            bases = (shared.addresses.form(access.address).base for access in shared.accesses(site))
            found = {
                v for base in bases for o in shared.origins(base) if (v := values.variable(o)) is not None
            }
            self._variables[site] = found.pop() if len(found) == 1 else None
        return self._variables[site]

    def leaves_array(self, site: int) -> bool:
        """Whether each iteration of a loop whose trip count the launch decides moves the address of an access.

        Only that count, which a replay makes up, keeps the address in its array.
        """
        if site not in self._leaving:
            values, cfg = self.model.values, self.model.cfg
            terms = {t for a in self.model.shared.accesses(site) for t, _ in values.linear(a.address)[0]}
            heads = {values.phi(t).block for t in terms if values.steps(t)}
            self._leaving[site] = any(self._loops.bounds.get(head) for head in heads if head in cfg.loops)
        return self._leaving[site]
