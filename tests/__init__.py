"""The tests, in the packages of ``tclint/``; beside them those of ``benchmarks/``, of the project, and what they share.

``tools`` has what several test modules use: no test module imports another one. ``project`` holds the checkout as a
whole to its promises: packaging, CI, documentation, editors, the fixtures and the real kernels.
"""

import pytest

pytest.register_assert_rewrite("tests.tools")
