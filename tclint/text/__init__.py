"""Text that people compare and send: the formatter (``layout``), the normal form (``normal``) and the reducer (``reduce``).

All of them read the syntax tree of :mod:`tclint.syntax` and change the text by the edits of :mod:`tclint.findings.edits`;
``names`` says what each name in a module refers to. ``command`` runs the program that decides whether a smaller text still
fails. None of them knows an instruction. Imports no package above ``driver``.

Change this package if a formatted text is not what a person would write, or a reduced one is larger than it has to be.
"""
