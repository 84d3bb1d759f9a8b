"""What became of the synchronisation of a kernel from one version of it to the next: ``tclint diff``."""
