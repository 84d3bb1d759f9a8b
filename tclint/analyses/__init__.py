"""One file for each analysis of a kernel, and :class:`~tclint.analyses.model.KernelModel`, which makes them on demand.

An analysis answers one question about a function: what may be in flight before an instruction (``groups``,
``wgmma_*``, ``tcgen05_*``, ``cp_async``, ``bulk``), which mbarrier an address names (``mbarrier_addresses``), how
many arrivals and bytes its phases get (``mbarriers``), what orders two accesses (``happens_before``), which accesses
overlap (``overlaps``), which threads execute an instruction (``execution``, ``issuers``), what an object is called
(``objects``). Imports ``dataflow``, ``values``, ``ir``, ``isa`` and ``findings``; it knows no rule and reports
nothing.

Change this package to track something new (CONTRIBUTING.md, "Add an analysis").
"""
