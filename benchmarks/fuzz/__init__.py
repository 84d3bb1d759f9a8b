"""Changes real kernels at random and sees that tclint neither crashes, nor hangs, nor calls broken input clean.

``kernels`` takes small pieces out of a corpus, ``text`` changes bytes and tokens, ``structure`` changes what the syntax
tree and the ISA table know, ``oracle`` says what came of a run, ``commands`` runs the command on odd inputs, and
``__main__`` counts.
"""
