"""Changes in the synchronisation of a kernel between two versions: ``tclint diff``.

Owns the skeleton of a kernel (the instructions that synchronise), the alignment of two skeletons, the classification
of each difference, and its texts. Imports ``inspect``, ``linting`` and packages below these.

Change this package when a difference is missed, misclassified or described badly.
"""
