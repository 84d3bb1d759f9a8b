"""A corpus of real PTX, built without a GPU from packages on PyPI: ``python -m benchmarks.corpus``.

``__main__`` is the command, ``builder`` drives the producers and keeps the manifest, ``worker`` runs in the virtual
environment of one producer, and each module in ``producers`` is a producer. ``protocol`` says what that is.
"""
