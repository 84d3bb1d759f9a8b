"""The language server: ``tclint lsp``.

Owns the protocol (``server`` and ``requests``, the only modules that import pygls; the others import only lsprotocol),
the states of a document, and one module for each kind of answer: diagnostics, code actions, hover, names, outline.
Imports ``linting``, ``driver``, ``inspect`` and ``report``.

Change this package to answer another request of an editor.
"""
