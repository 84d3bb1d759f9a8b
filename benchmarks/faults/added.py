"""Code that is added: exits, accesses and calls in between; and other misuse of clusters and registers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from benchmarks.faults.kernel import (
    WGMMA_WAITS,
    Fault,
    Kernel,
    Plant,
    constant_of,
    of_peers,
    operator,
    through_async,
    without_loop,
)
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.ir.nodes import (
    Memory,
    Vector,
    registers,
)

__all__: list[str] = []


def _enters(prologue: str, rules_at: Callable[[Kernel], frozenset[int]]) -> Plant:
    """Text in front of the first instruction of a kernel."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        places = rules_at(kernel)
        if kernel.function.entry and places:
            start = kernel.span(0).start
            yield Fault(
                (Edit(Span(start, start), prologue),),
                places | {*range(len(kernel.instructions))[:4]},
                prologue,
            )

    return plant


def _aligned(kernel: Kernel) -> frozenset[int]:
    return kernel.where(lambda m: m.scope in ("warp", "warpgroup"))


def _warpgroup_wide(kernel: Kernel) -> frozenset[int]:
    wgmma = kernel.of_group("wgmma")
    return wgmma | kernel.of_events("setmaxnreg") if wgmma else wgmma


_TID = "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; {} @%tclint_p exit; }} "
operator("some lanes leave at the entry", "convergence", "CV003 CV001 CV004")(
    _enters(_TID.format("and.b32 %tclint_r, %tclint_r, 31; setp.ge.u32 %tclint_p, %tclint_r, 30;"), _aligned)
)
operator("part of a warpgroup leaves at the entry", "convergence", "CV004 CV001")(
    _enters(_TID.format("setp.ge.u32 %tclint_p, %tclint_r, 96;"), _warpgroup_wide)
)


@operator("address of tensor memory differs by lane", "tcgen05", "TC022")
def _own_columns(kernel: Kernel) -> Iterator[Fault]:
    for group in ("tcgen05.ld", "tcgen05.st"):
        for site in kernel.sites("issue", group):
            operand = kernel.instructions[site].role("taddr")
            numbers = registers(operand) if operand is not None else ()
            text = kernel.text(site)
            if len(numbers) != 1 or "\n" in text or kernel.instructions[site].guard >= 0:
                continue
            name = kernel.function.registers[numbers[0]].name
            own = re.sub(rf"\[{re.escape(name)}\b", "[%tclint_r", text, count=1)
            wrapped = f"{{ .reg .b32 %tclint_r; mov.u32 %tclint_r, %laneid; add.u32 %tclint_r, %tclint_r, {name}; {own} }}"
            yield Fault((Edit(kernel.span(site), wrapped),), frozenset((site,)), text)


@operator("descriptor of wgmma differs by lane", "wgmma", "WG012")
def _own_descriptor(kernel: Kernel) -> Iterator[Fault]:
    for site in kernel.sites("issue", "wgmma"):
        operand, text = kernel.instructions[site].role("b"), kernel.text(site)
        if not isinstance(operand, int) or "\n" in text:
            continue
        name = kernel.function.registers[operand].name
        own = re.sub(rf"{re.escape(name)}\b", "%tclint_d", text, count=1)
        wrapped = (
            "{ .reg .b64 %tclint_d; .reg .b32 %tclint_r; mov.u32 %tclint_r, %laneid; cvt.u64.u32 %tclint_d, %tclint_r; "
            f"add.u64 %tclint_d, %tclint_d, {name}; {own} }}"
        )
        yield Fault((Edit(kernel.span(site), wrapped),), frozenset((site,)), text[:90])


def _memory(text: str) -> str:
    """*text* with a word of memory; accesses to it are volatile, so that no compiler takes them away.

    In local memory: a variable in shared memory would move the dynamic one to an address that bulk copies do not take.
    """
    return f"{{ .local .align 4 .b8 tclint_m[4]; {text} }}"


_READ = _memory("st.volatile.local.b32 [tclint_m], <d>;")
_WRITTEN = _memory("ld.volatile.local.b32 <d>, [tclint_m];")
_CHANGED = _memory("st.volatile.local.b32 [tclint_m], <d>; ld.volatile.local.b32 <d>, [tclint_m];")
_COPIED = _memory(".reg .b32 %tclint_r; mov.b32 %tclint_r, <d>; st.volatile.local.b32 [tclint_m], %tclint_r;")


def _meddles(text: str, where: str, role: str = "d") -> Plant:
    """Let *text* touch the first register (``<d>``) that a wgmma has in that role.

    It is placed before the wgmma, after it, or after the first commit that follows (*where*: ``before``, ``issued``,
    ``committed``).
    """

    def plant(kernel: Kernel) -> Iterator[Fault]:
        commits = kernel.sites("commit", "wgmma")
        for site in kernel.sites("issue", "wgmma"):
            operand = kernel.instructions[site].role(role)
            numbers = registers(operand) if isinstance(operand, Vector) else ()
            at = next((c for c in commits if c > site), -1) if where == "committed" else site
            if not numbers or at < 0:
                continue
            register = kernel.function.registers[numbers[0]]
            if register.type not in (".b32", ".f32", ".u32", ".s32"):
                continue
            place = kernel.span(at).start if where == "before" else kernel.span(at).end
            line = f" {text.replace('<d>', register.name)} "
            yield Fault((Edit(Span(place, place), line),), kernel.of_group("wgmma") | {at}, line.strip())

    return plant


for _name, _text, _where, _role, _rules in (
    ("accumulator read before its commit", _READ, "issued", "d", "WG001"),
    ("accumulator read after its commit", _READ, "committed", "d", "WG001"),
    ("accumulator written before its commit", _WRITTEN, "issued", "d", "WG004"),
    ("accumulator written after its commit", _WRITTEN, "committed", "d", "WG004"),
    ("accumulator changed after the fence", _CHANGED, "before", "d", "WG001 WG002 WG003"),
    ("copy of an accumulator used in flight", _COPIED, "committed", "d", "WG001"),
    ("A fragment written in flight", _WRITTEN, "committed", "a", "WG004"),
):
    operator(_name, "wgmma", _rules)(_meddles(_text, _where, _role))


def _bypassed(value: str, event: str, group: str | None = "wgmma") -> Plant:
    """Let the threads whose *value* is 0 branch around an instruction of that event and *group*."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site in kernel.sites(event, group):
            text = kernel.text(site)
            if kernel.instructions[site].guard < 0 and "//" not in text and "\n" not in text:
                edit = Edit(kernel.span(site), _AROUND.format(value, text))
                about = kernel.of_group(group) if group else through_async(kernel)
                yield Fault((edit,), about, text[:90])

    return plant


_AROUND = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, {}; setp.eq.u32 %tclint_p, %tclint_r, 0; "
    "@%tclint_p bra TCLINT_L; {} TCLINT_L: }}"
)
operator("wgmma.wait_group on some paths", "wgmma", WGMMA_WAITS)(_bypassed("%ctaid.x", "wait"))
operator("wgmma.fence on some paths", "wgmma", "WG002")(_bypassed("%ctaid.x", "register-fence"))


@operator("store right before the operation", "proxy", "PR001 PR002 PR003 PR004")
def _stores(kernel: Kernel) -> Iterator[Fault]:
    """A store through the generic proxy to what a copy is about to read or overwrite, with the guard of the copy."""
    for site in sorted(through_async(kernel)):
        copy = kernel.instructions[site]
        for role in ("source", "destination"):
            operand = copy.role(role)
            if not isinstance(operand, Memory) or not isinstance(operand.base, int):
                continue
            base = kernel.function.registers[operand.base]
            guard = kernel.function.registers[copy.guard].name if copy.guard >= 0 else ""
            if base.type in (".b32", ".u32", ".s32") and "{" not in kernel.text(site)[:1]:
                prefix = f"@{'!' if copy.negated else ''}{guard} " if guard else ""
                text = f" {prefix}st.shared.b32 [{base.name}+{operand.offset}], 0; "
                place = kernel.span(site).start
                yield Fault((Edit(Span(place, place), text),), through_async(kernel), text.strip())


operator("proxy fence on some paths", "proxy", "PR001 PR002 PR003 PR004")(
    _bypassed("%ctaid.x", "proxy-fence", None)
)
operator("tcgen05.commit on some paths", "tcgen05", "TC001 TC005 TC012 TM006")(
    _bypassed("%ctaid.x", "commit", "tcgen05")
)
operator("wgmma skipped by one lane", "wgmma", "CV001 CV002")(_bypassed("%laneid", "issue"))

_CALL = (
    "{ .param .b64 tclint_a; .param .b64 tclint_b; .param .b32 tclint_c; st.param.b64 [tclint_a], 0; "
    "st.param.b64 [tclint_b], 0; call (tclint_c), vprintf, (tclint_a, tclint_b); }"
)


@operator("call while a wgmma is in flight", "wgmma", "")
def _calls(kernel: Kernel) -> Iterator[Fault]:
    """A function of the system, which no compiler sees into."""
    head = re.search(rb"^\s*\.address_size\s+\d+", kernel.data, re.MULTILINE)
    if head is None:
        return
    known = re.search(rb"\.func[^;{]*\bvprintf\b", kernel.data)
    declared = " .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
    edits = () if known else (Edit(Span(head.end(), head.end()), declared),)
    for site in kernel.sites("issue", "wgmma"):
        end = kernel.span(site).end
        yield Fault(
            (*edits, Edit(Span(end, end), f" {_CALL} ")), kernel.of_group("wgmma"), kernel.text(site)[:90]
        )


@operator("tcgen05.relinquish before the allocation", "tcgen05", "TM004")
def _early_relinquish(kernel: Kernel) -> Iterator[Fault]:
    for first in kernel.sites("tmem-alloc")[:1]:
        for site in kernel.sites("tmem-relinquish")[:1]:
            start = kernel.span(first).start
            moved = Edit(Span(start, start), " ".join(kernel.text(site).split()) + " ")
            places = frozenset((*kernel.sites("tmem-alloc"), *kernel.sites("tmem-relinquish")))
            yield Fault((kernel.blank(site), moved), places, kernel.text(site))


@operator("entry register count removed", "setmaxnreg", "CV007")
def _no_entry_count(kernel: Kernel) -> Iterator[Fault]:
    sites = kernel.sites("setmaxnreg")
    pattern = rb"\.(maxnreg|maxntid|reqntid|minnctapersm)\s+[\d, ]+"
    header = kernel.data[kernel.function.start : kernel.span(0).start] if sites else b""
    found = list(re.finditer(pattern, header))
    if found:
        at = kernel.function.start
        edits = tuple(Edit(Span(at + m.start(), at + m.end()), " " * len(m[0])) for m in found)
        yield Fault(edits, frozenset(sites), header[:60].decode(errors="replace"))


@operator("cluster of three CTAs", "tcgen05", "TM010")
def _odd_cluster(kernel: Kernel) -> Iterator[Fault]:
    """Pairs of CTAs need an even number of them."""
    pairs = kernel.where(lambda m: m.binding.get("cta_group", "").endswith("2"))
    header = kernel.data[kernel.function.start : kernel.span(0).start] if pairs else b""
    match = re.search(rb"\.reqnctapercluster\s+[\d, ]+", header)
    if match:
        start = kernel.function.start
        edit = Edit(Span(start + match.start(), start + match.end()), ".reqnctapercluster 3 ")
        yield Fault((edit,), pairs, match[0].decode().strip())


@operator("cluster barrier and its arrival deleted", "barrier", "CL002 TM008 TM006 TM011 SM001 PR005 MB002")
def _no_cluster_barrier(kernel: Kernel) -> Iterator[Fault]:
    """All threads continue without the other CTAs: the wait and the arrival before it are gone."""
    about = of_peers(kernel) | kernel.of_events("tmem-") | kernel.where(lambda m: "mbarrier" in m.form.roles)
    arrivals = kernel.sites("barrier-arrive", "cluster")
    for site in kernel.sites("barrier-wait", "cluster"):
        before = [i for i in arrivals if i < site]
        if before:
            yield Fault((kernel.blank(before[-1]), kernel.blank(site)), about | {site}, kernel.text(site))


@operator("barrier thread count raised", "barrier", "CV010 CV011 MB016")
def _too_many_threads(kernel: Kernel) -> Iterator[Fault]:
    """A named barrier waits for one warp more than arrives, or receives one arrival more than it waits for."""
    for event in ("barrier-sync", "barrier-arrive"):
        for site in kernel.sites(event):
            number = constant_of(kernel.instructions[site], "count")
            edit = kernel.operand(site, "count", str(number + 32)) if number else None
            if edit:
                yield Fault((edit,), kernel.of_events("barrier-"), kernel.text(site))


@operator("setmaxnreg asks for more", "setmaxnreg", "CV012 CV008")
def _more_registers(kernel: Kernel) -> Iterator[Fault]:
    """A .inc to 16 registers more than the other warps leave."""
    for site in kernel.sites("setmaxnreg"):
        match, number = kernel.instructions[site].match, constant_of(kernel.instructions[site], "count")
        if match is None or number is None or match.binding.get("action") != ".inc" or number + 16 > 256:
            continue
        edit = kernel.operand(site, "count", str(number + 16))
        if edit:
            yield Fault((edit,), kernel.of_events("setmaxnreg"), kernel.text(site))


@operator("is_canceled not asked", "clc", "CL004")
def _unasked(kernel: Kernel) -> Iterator[Fault]:
    """Every request is taken as granted: no question, and what was guarded by its answer is executed."""
    asks = [i for i in kernel.sites("clc-query") if ".is_canceled" in kernel.instructions[i].opcode]
    if asks:
        yield Fault(tuple(map(kernel.blank, asks)), kernel.of_events("clc-"), kernel.text(asks[0]))


@operator("response not waited for", "clc", "CL004 BK001 MB016")
def _unanswered(kernel: Kernel) -> Iterator[Fault]:
    """The last wait before the response is decoded is asked once, whatever it says."""
    waits = kernel.sites("mbarrier-wait")
    for site in kernel.sites("clc-query"):
        before = [w for w in waits if w < site]
        loop = without_loop(kernel, before[-1]) if before else []
        if loop:
            places = kernel.of_events("clc-") | kernel.where(lambda m: bool(m.form.memory))
            yield Fault((*loop, kernel.blank(before[-1])), places, kernel.text(before[-1]))
