"""The pytest plugin: a fixture that asserts that PTX is clean, and ``--tclint``, which lints ``.ptx`` files.

pytest loads this module wherever tclint is installed, so it does not import tclint before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tclint.api import Options, Report
    from tclint.config.config import Config
    from tclint.syntax.source import Source

__all__ = ["AssertCleanPtx", "assert_clean_ptx"]

SETTINGS = "tclint_options"


class AssertCleanPtx(Protocol):
    """The type of the fixture ``assert_clean_ptx``."""

    def __call__(
        self,
        source: Source | str | bytes | os.PathLike[str],
        *,
        name: str = ...,
        **options: Unpack[Options],
    ) -> Report:
        """Lints *source* like :func:`tclint.check`, and fails the test if ``tclint check`` would fail.

        *options* override ``tclint_options``, which overrides the settings of the project. Returns the report, which
        may have findings below ``fail_on``. Raises SettingsError.
        """


@pytest.fixture(scope="session")
def assert_clean_ptx(pytestconfig: pytest.Config) -> AssertCleanPtx:
    """A function that lints PTX (text, or a path) and fails the test with the report unless it is clean."""

    def check(
        source: Source | str | bytes | os.PathLike[str], *, name: str = "<string>", **options: Unpack[Options]
    ) -> Report:
        __tracebackhide__ = True
        from tclint.api import lint

        report = lint(source, _settings(pytestconfig, **options), name)
        if not report.ok:
            pytest.fail(_text(report, pytestconfig))
        return report

    return check


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tclint", "tclint, a linter for PTX").addoption(
        "--tclint", action="store_true", help="Lint .ptx files below the arguments, each as a test."
    )
    parser.addini(
        SETTINGS,
        "Settings of tclint, one 'key = value' per line, which override the project's configuration file.",
        type="linelist",
    )


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("tclint"):
        return
    config.addinivalue_line("markers", "tclint: lints a .ptx file (collected by --tclint).")
    from tclint.findings.selection import SettingsError

    try:
        _settings(config)
    except SettingsError as error:
        raise pytest.UsageError(f"tclint: {error}") from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".ptx" or not parent.config.getoption("tclint"):
        return None
    from tclint.driver.inputs import Exclusions

    exclusions = Exclusions(_settings(parent.config))
    return None if exclusions.matched(str(file_path)) else _File.from_parent(parent, path=file_path)


class _File(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield _Lint.from_parent(self, name="tclint")


class _Lint(pytest.Item):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.add_marker("tclint")

    def runtest(self) -> None:
        from tclint.api import lint_paths

        report = lint_paths([os.path.relpath(self.path)], _settings(self.config))
        if not report.ok:
            raise _Unclean(_text(report, self.config))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, _Unclean) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"tclint {os.path.relpath(self.path)}"


class _Unclean(Exception):
    """Raised for a file that is not clean. The message is the report."""


def _settings(config: pytest.Config, **options: Unpack[Options]) -> Config:
    """The settings: those of the file in pytest's root folder, overridden by ``tclint_options`` and then *options*."""
    from tclint.api import configured
    from tclint.config.settings import discover, inline

    found = discover(config.rootpath)
    lines = [inline(line, SETTINGS, config.rootpath) for line in config.getini(SETTINGS)]
    return configured(None, options, [*filter(None, [found]), *lines])


def _text(report: Report, config: pytest.Config) -> str:
    writer = config.get_terminal_writer()
    return report.render(color=writer.hasmarkup).rstrip("\n")
