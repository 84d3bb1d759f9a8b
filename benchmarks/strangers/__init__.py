"""False findings on kernels that no rule has seen: ``python -m benchmarks.strangers``.

The authors of the rules know the corpora, so a low share of false findings there proves little. Here a *set* of
kernels is drawn from packages and repositories that are in no corpus (``sources.toml``), linted once, and judged. A set
counts only for that run: ``kernels.tsv`` records its kernels, which are never drawn again.

``sources`` reads the list and fetches, ``containers`` finds PTX in files, ``compile`` makes PTX of CUDA C++,
``kernels`` splits modules and identifies kernels, ``pool`` keeps what a source gave in the cache, ``draw`` has the rules
of a set, ``ledger`` the committed tables, ``measure`` lints and plants faults, and ``score`` writes the results page.
"""
