"""Inputs that the workers of an executor lint: the report of a local run, whatever happens to the workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import tclint
from tclint.cache import program
from tclint.driver import pool
from tests.tools.project import ROOT

UNWAITED = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_bytes()
INPUTS = [(f"{n}.ptx", UNWAITED + b"// %d\n" % n) for n in range(12)]
forks = pytest.mark.skipif(sys.platform != "linux", reason="the workers are forked")


def forked(workers: int = 2) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("fork"))


def text(report: tclint.Report) -> str:
    return report.render("json") + report.render()


@pytest.fixture(scope="module")
def local() -> str:
    """The report that a run in one process makes."""
    with ThreadPoolExecutor(1) as executor:
        return text(tclint.check_many(INPUTS, executor=executor))


@forks
def test_workers_make_the_report_of_a_local_run_in_order(local: str) -> None:
    with forked() as executor:
        assert text(tclint.check_many(INPUTS, executor=executor)) == local


def test_paths_and_texts_may_be_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in ("b", "a"):
        Path("in", f"{name}.ptx").write_bytes(UNWAITED)
    mixed: list[Any] = [("c.ptx", UNWAITED), "in", ("d.ptx", b"\0"), Path("missing.ptx")]
    with ThreadPoolExecutor(1) as executor:
        report = tclint.check_many(mixed, executor=executor)
    shown = [(one.path, one.status) for one in report.files]
    assert shown == [
        ("c.ptx", "analysed"), (os.path.join("in", "a.ptx"), "analysed"), (os.path.join("in", "b.ptx"), "analysed"),
        ("d.ptx", "failed"), ("missing.ptx", "failed"),
    ]  # fmt: skip


@forks
def test_nothing_is_lost_when_a_worker_is_killed(
    local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MAX_PENDING_ELSEWHERE", 4)  # some inputs are submitted to the broken executor
    whole, killed = pool.lint, tmp_path / "killed"

    def lint(source: Any, *arguments: Any, **options: Any) -> Any:
        if source.path == "3.ptx" and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(source, *arguments, **options)

    monkeypatch.setattr(pool, "lint", lint)
    with forked() as executor:
        report = tclint.check_many(INPUTS, executor=executor)
        with pytest.raises(RuntimeError):
            executor.submit(os.getpid)
    assert killed.exists()
    assert text(report) == local


@forks
def test_input_that_kills_its_worker_is_reported_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pool.lint

    def lint(source: Any, *arguments: Any, **options: Any) -> Any:
        return os._exit(9) if source.path == "3.ptx" else whole(source, *arguments, **options)

    monkeypatch.setattr(pool, "lint", lint)
    with forked() as executor:
        report = tclint.check_many(INPUTS[:6], executor=executor)
    assert [one.status for one in report.files] == ["failed" if n == 3 else "analysed" for n in range(6)]
    assert "died" in report.problems[0].message


class Failing(Executor):
    """Fails the third input in one way, and runs the others at once."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        if len(self.futures) == 3:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


class KilledWorker(Exception):
    """As dask's."""


@forks
@pytest.mark.parametrize("error", [KilledWorker("lint-3"), CancelledError()], ids=["killed", "lost"])
def test_input_that_an_executor_loses_is_linted_here(local: str, error: BaseException) -> None:
    assert text(tclint.check_many(INPUTS, executor=Failing(error))) == local


def test_worker_without_tclint_is_an_error() -> None:
    with pytest.raises(
        tclint.ExecutorError, match="the executor cannot be used: ModuleNotFoundError: No module named"
    ):
        tclint.check_many(INPUTS[:4], executor=Failing(ModuleNotFoundError("No module named 'tclint'")))


def test_worker_with_another_tclint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["of this machine", "of the worker"])
    monkeypatch.setattr(program, "sources", lambda: next(answers))
    with (
        pytest.raises(tclint.ExecutorError, match="a worker has another tclint"),
        ThreadPoolExecutor(1) as executor,
    ):
        tclint.check_many(INPUTS[:1], executor=executor)


def test_executor_that_is_shut_down_is_an_error() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(tclint.ExecutorError, match="cannot schedule new futures after shutdown"):
        tclint.check_many(INPUTS[:2], executor=executor)


@pytest.mark.usefixtures("own_cache")
def test_known_inputs_are_not_sent() -> None:
    sent = Failing(AssertionError("sent"))
    first = tclint.check_many(INPUTS[:2], executor=sent, cache=True)
    assert len(sent.futures) == 2
    assert text(tclint.check_many(INPUTS[:2], executor=sent, cache=True)) == text(first)
    assert len(sent.futures) == 2


@pytest.mark.slow
def test_dask_cluster_that_loses_a_worker_makes_the_report_of_a_local_run(local: str) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(cluster.workers.values())).pid

        def kill() -> None:
            time.sleep(0.3)
            os.kill(victim, signal.SIGKILL)

        killer = Thread(target=kill)
        killer.start()
        report = tclint.check_many(INPUTS, executor=client.get_executor())
        killer.join()
    assert text(report) == local
