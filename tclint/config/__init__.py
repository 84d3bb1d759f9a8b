"""Settings: each declared once, and resolved once from files, options and defaults.

Owns :class:`~tclint.config.config.Config`, the layers of a configuration (``settings``), and the rules and files that
they turn on or off (``selection``). ``driver`` and the faces read a configuration; every stage below them is given the few
values that it needs, such as :attr:`Config.selected`. Imports ``findings`` and ``isa``.

Change this package to add a setting: a new field of ``Config`` gives the command-line option, the key in the file,
the schema and the row in docs/configuration.md.
"""
