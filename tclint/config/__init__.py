"""Settings: each declared once, and resolved once from files, options and defaults.

Owns :class:`~tclint.config.config.Config`, the layers of a configuration (``settings``), and the selection of rules, files
and kernels (``selection``). Imports ``findings``.

Change this package to add a setting: a new field of ``Config`` gives the command-line option, the key in the file,
the schema and the row in docs/configuration.md.
"""
