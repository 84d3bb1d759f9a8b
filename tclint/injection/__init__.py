"""Recording of a launch in a running program: ``tclint capture`` and ``tclint.capture``.

``inject.c`` and ``record.c`` are a library that the CUDA driver loads into the program: CUPTI calls it around driver
functions, and it writes the chosen launch to a folder. ``build`` compiles it, ``program`` runs a program with it,
``region`` uses it inside a Python program, and ``ptx`` finds the PTX of the recorded kernel. What is recorded is read
by :mod:`tclint.recording`.

This package may import ``driver`` and what is to the left of it. To record more of a launch, write it in ``record.c``
and read it in :mod:`tclint.recording`.
"""
