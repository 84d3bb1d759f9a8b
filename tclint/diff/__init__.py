"""What became of the synchronisation of a kernel from one version of it to the next: ``tclint diff``.

Owns the skeleton of a kernel (the instructions that synchronise), the alignment of two skeletons, the classification
of each difference, and its texts. Imports ``inspect``, ``linting`` and what is below.

Change this package when a difference is missed, misclassified or described badly.
"""
