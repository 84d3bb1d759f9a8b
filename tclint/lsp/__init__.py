"""The language server: ``tclint lsp``.

Owns the protocol (``server``, the only module that imports pygls; its siblings import only lsprotocol), the states of a
document, and one module for each kind of answer: diagnostics, code actions, hover, names, outline. Imports ``linting``,
``driver``, ``inspect`` and ``report``.

Change this package to answer another request of an editor.
"""
