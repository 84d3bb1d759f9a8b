"""Synchronisation that is deleted."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.faults.kernel import (
    Fault,
    Kernel,
    Plant,
    about_barriers,
    operator,
    through_async,
)

__all__: list[str] = []


def _deletes(event: str, group: str | None = None) -> Plant:
    """Take one instruction of that event and group away; the group ``lanes`` is that of barriers of a warp."""

    def plant(kernel: Kernel) -> Iterator[Fault]:
        lanes = kernel.where(lambda m: m.form.event == "barrier-sync" and m.form.scope == "lanes")
        sites = sorted(lanes) if group == "lanes" else kernel.sites(event, group)
        if event == "pdl-wait" and len(sites) == 1:
            return  # whether a kernel without any is launched as a dependent is not in its text (9.7.13.13)
        for site in sites:
            if group != "lanes" and site in lanes:
                continue
            if event.startswith("tcgen05-fence"):
                about = kernel.where(lambda m: m.form.family in ("tcgen05", "mbarrier", "barrier"))
            elif event.startswith("barrier"):
                about = about_barriers(kernel)
            elif event == "pdl-wait":
                about = kernel.of_events("pdl-") | kernel.where(
                    lambda m: bool(m.form.memory) or "tensormap" in m.form.roles
                )
            elif event == "memory-fence":
                about = kernel.where(lambda m: bool(m.form.memory))
            elif event == "proxy-fence":
                about = through_async(kernel)
            elif event.startswith("mbarrier"):
                about = kernel.where(lambda m: "mbarrier" in m.form.roles)
                if kernel.instructions[site].group == "cp.async":  # nothing else completes its copies
                    about |= kernel.of_group("cp.async")
            else:
                about = kernel.of_group(group) if group else kernel.of_events("tmem-")
                if group == "tcgen05":  # a commit arrives on an mbarrier
                    about |= kernel.where(lambda m: "mbarrier" in m.form.roles)
            yield Fault((kernel.blank(site),), about | {site}, kernel.text(site))

    return plant


for _name, _family, _event, _group, _rules in (
    ("wgmma.wait_group deleted", "wgmma", "wait", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011 MB016"),
    ("wgmma.commit_group deleted", "wgmma", "commit", "wgmma", "WG001 WG003 WG004 WG005 WG007 WG011 MB016"),
    ("wgmma.fence deleted", "wgmma", "register-fence", "wgmma", "WG002 WG008"),
    ("tcgen05.wait::ld deleted", "tcgen05", "wait", "tcgen05.ld", "TC002 TC003 TC007 TC011 TM006"),
    ("tcgen05.wait::st deleted", "tcgen05", "wait", "tcgen05.st", "TC002 TC004 TM006"),
    ("tcgen05.commit deleted", "tcgen05", "commit", "tcgen05", "TC001 TC005 TC012 TM006 MB006 MB016"),
    ("tcgen05.alloc deleted", "tcgen05", "tmem-alloc", None, "TM001 TM003 TM008"),
    ("tcgen05.dealloc deleted", "tcgen05", "tmem-dealloc", None, "TM001"),
    ("cp.async.commit_group deleted", "cp.async", "commit", "cp.async", "CA001 CA002 CA003"),
    ("cp.async.wait deleted", "cp.async", "wait", "cp.async", "CA001 CA003"),
    ("bulk commit_group deleted", "bulk", "commit", "bulk", "BK002 BK004 BK005 MB016"),
    ("bulk wait_group deleted", "bulk", "wait", "bulk", "BK002 BK004 MB016"),
    ("proxy fence deleted", "proxy", "proxy-fence", None, "PR001 PR002 PR003 PR004"),
    ("mbarrier.init deleted", "mbarrier", "mbarrier-init", None, "MB009 MB002"),
    ("expect_tx deleted", "mbarrier", "mbarrier-expect", None, "MB004 MB005 MB006 MB016"),
    (
        "mbarrier arrive deleted",
        "mbarrier",
        "mbarrier-arrive",
        None,
        "MB004 MB005 MB006 MB016 BK011 WG011 TC012 CA001",
    ),
    (
        "CTA barrier deleted",
        "barrier",
        "barrier-sync",
        None,
        "TM008 TM006 BK003 SM001 SM002 CA005 PR005 MB014 MB015 MB002 MB016 MO007 MO008 MO009",
    ),
    ("warp barrier deleted", "barrier", "barrier-sync", "lanes", "SM002 MB014 MB015 MB002 TM008 BK003 PR005"),
    ("griddepcontrol.wait deleted", "pdl", "pdl-wait", None, "GD001 GD002"),
    ("tcgen05.fence::before deleted", "tcgen05", "tcgen05-fence-before", None, "TC014"),
    ("tcgen05.fence::after deleted", "tcgen05", "tcgen05-fence-after", None, "TC013"),
    ("memory fence deleted", "memory", "memory-fence", None, "MO003 MO005"),
    (
        "cluster barrier deleted",
        "barrier",
        "barrier-wait",
        None,
        "TM008 TM006 TM011 CL001 CL002 SM001 PR005 MB002",
    ),
    ("cluster arrival deleted", "barrier", "barrier-arrive", "cluster", "CL001"),
):
    operator(_name, _family, _rules)(_deletes(_event, _group))
