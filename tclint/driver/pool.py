"""One report per input, in the order of the inputs, made in this process or in a pool of processes."""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from tclint._named_tuple import NamedTuple
from tclint._signals import signals_held
from tclint.config.config import Config
from tclint.driver.helpers import Helpers, Slots, slots
from tclint.driver.one import Input, debug, internal_error, lint
from tclint.driver.signals import POLL_SECONDS, take_signals_of_worker
from tclint.findings.finding import FileReport, OpenQuestion, SourceComment
from tclint.syntax.source import Source, SourceError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ProcessPoolExecutor

    from tclint.cache.results import EarlierResults
    from tclint.executor.launch import LaunchFile
    from tclint.findings.figures import Judged
    from tclint.linting.cache import IncrementalCache

__all__ = ["Checked", "ExecutorError", "check", "reports"]


WORTH_IT = 1_000_000
"""Bytes of input beyond which starting more processes pays off: about a second of work."""
_MAX_PENDING_PER_PROCESS = 4
"""Inputs that are read ahead for each process, bounded since their texts stay in memory."""
_MAX_PENDING_ELSEWHERE = 256
"""Inputs that are read ahead for an executor, whose number of workers is unknown."""
_KILLED = "KilledWorker"
"""What dask raises for an input if several workers died of it; it is not imported here."""
_DIED = "the process that analysed it died (out of memory?)"
_helpers: Helpers | None = None
"""What shares the kernels of a module in a process of a pool."""


class ExecutorError(Exception):
    """An executor cannot be used; the message states why. No input has been reported."""


class Checked(NamedTuple):
    """The result for one input."""

    report: FileReport
    seconds: Counter[str]
    """By stage, for ``--timings``."""
    reproducible: bool = False
    """Whether linting the input again would give the same report, as no error of tclint or of the machine ended it."""


def reports(
    inputs: Iterable[Input],
    config: Config,
    note: Callable[[str], None] | None = None,
    executor: Executor | None = None,
) -> Iterator[Checked]:
    """The result for each input, with what the user's sources say. Their order does not depend on ``config.jobs``.

    With an *executor*, its workers make them. Raises ExecutorError if they cannot, and SettingsError if the settings need a
    ptxas that there is not.

    Reports of earlier runs are reused, and new ones kept for later (:mod:`tclint.cache`). *note* is called at the end with
    how many were, and with what prevented others from being kept.
    """
    from tclint.driver.user_sources import UserSources

    sources = UserSources()
    passed: deque[tuple[Source | None, tuple[SourceComment, ...]]] = deque()

    def noted() -> Iterator[Input]:
        for item in inputs:
            comments = sources.comments(item[1]) if isinstance(item[1], Source) else ()
            passed.append((item[1] if comments and isinstance(item[1], Source) else None, comments))
            yield item

    for checked in _reports(noted(), config, note, executor):
        source, comments = passed.popleft()
        report = checked.report
        if report.source is None and source is not None:
            report = replace(report, source=source)
        yield checked._replace(report=sources.completed(report, comments))


def _reports(
    inputs: Iterable[Input],
    config: Config,
    note: Callable[[str], None] | None,
    executor: Executor | None,
) -> Iterator[Checked]:
    """The result for each input, whatever is beside it."""
    from tclint.cache.results import opened

    if config.ptxas_budget is not None:
        from tclint.driver.assembling import folder_of, gated

        config = gated(config)
        if config.gate is not None and not config.gate.folder:
            with folder_of(config.gate) as gate:
                yield from _reports(inputs, replace(config, gate=gate), note, executor)
            return
    results = opened(config)
    if results is None:
        yield from _made(inputs, config, executor)
        return
    try:
        yield from _known_or_made(inputs, config, results, executor)
    finally:
        for line in results.flush():
            if note is not None:
                note(line)


def _known_or_made(
    inputs: Iterable[Input], config: Config, results: EarlierResults, executor: Executor | None
) -> Iterator[Checked]:
    """The result for each input, in their order; those that are known need no process."""
    waiting: deque[Checked | str] = deque()
    """The inputs that were read and whose results are not returned yet: the result, if it is known; else its key, or ""
    for an input that could not be read."""

    def unknown() -> Iterator[Input]:
        for item in inputs:
            path, source = item
            key = results.key(source, config) if isinstance(source, Source) else ""
            report = results.find(key, source) if isinstance(source, Source) else None
            if report is None:
                waiting.append(key)
                yield item
            else:
                waiting.append(Checked(_finished(path, report), Counter()))

    for made in _made(unknown(), config, executor):
        while isinstance(known := waiting.popleft(), Checked):
            yield known
        if made.reproducible:
            results.keep(known, made.report)
        yield made
    for known in waiting:
        assert isinstance(known, Checked)  # every other one was made
        yield known


def _made(inputs: Iterable[Input], config: Config, executor: Executor | None) -> Iterator[Checked]:
    """The result for each input, made in this process, in several, or elsewhere."""
    if executor is not None:
        yield from _elsewhere(inputs, config, executor)
        return
    jobs = config.jobs or cores()
    wanted = bool(config.jobs) or config.gate is not None  # ptxas takes longer than a process takes to start
    left = iter(inputs)
    first: list[Input] = []
    if jobs > 1:
        size = 0
        for item in left:
            first.append(item)
            size += len(item[1].data) if isinstance(item[1], Source) else 0
            if len(first) >= jobs and (wanted or size > WORTH_IT):
                break
        if len(first) > 1 and (wanted or size > WORTH_IT):
            yield from _in_processes(chain(first, left), config, min(jobs, len(first)))
            return
    with slots(jobs, workers=False) as free:
        helpers = Helpers(free) if free is not None else None
        for item in chain(first, left):
            yield check(item, config, helpers)


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check(item: Input, config: Config, helpers: Helpers | None = None) -> Checked:
    """The result for one input, of whose kernels *helpers* take over some.

    Every error becomes a problem in its report, unless ``TCLINT_DEBUG`` is set.
    """
    path, source = item
    seconds = Counter[str]()
    if isinstance(source, SourceError):
        return Checked(FileReport.failed(path, str(source), source.line), seconds)
    reproducible = False
    try:
        judged = _judged(source, config, seconds)
        with helpers.at_work() if helpers is not None else nullcontext():
            report = _linted(source, config, seconds, judged, helpers)
        reproducible = judged is None or not judged.problem
    except SourceError as error:
        report = replace(FileReport.failed(path, str(error), error.line), member=source.member)
    except Exception as error:
        if debug():
            raise
        report = replace(FileReport.failed(path, internal_error(error)), member=source.member)
    return Checked(_finished(path, report), seconds, reproducible)


def _judged(source: Source, config: Config, seconds: Counter[str]) -> Judged | None:
    """What ptxas makes of a text and what is thought of it, if the settings have a budget."""
    if config.gate is None:
        return None
    from time import perf_counter

    from tclint.driver.assembling import judged

    began = perf_counter()
    found = judged(source, config)
    seconds.update({"ptxas": perf_counter() - began})
    return found


def _linted(
    source: Source, config: Config, seconds: Counter[str], judged: Judged | None, helpers: Helpers | None
) -> FileReport:
    """The report on a text, with fixes that have been verified and findings confirmed as set. Raises SourceError."""
    from tclint.linting.cache import IncrementalCache

    past = IncrementalCache(edited=False)
    past.share = helpers
    clock = lambda stage, took: seconds.update({stage: took})
    if config.execute:
        report = _executed(source, config, clock, past, judged)
    else:
        report = lint(source, config, clock, past, judged=judged)
    if any(finding.fixes for finding in report.findings):
        report = _proven(report, config, seconds, past)
    if config.confirm and report.findings and report.asm is None:
        report = _confirmed(report, config, seconds)
    return report


def _finished(path: str, report: FileReport) -> FileReport:
    """*report* with what comes from files beside the input."""
    from tclint.driver.inputs import origin

    # Without findings and verdicts, nothing of the text is shown: free it before the next one is read.
    changes: dict[str, Any] = {} if report.findings or report.verdicts else {"source": None}
    if report.findings:
        changes["origin"] = origin(path)
    return replace(report, **changes)


def _executed(
    source: Source,
    config: Config,
    clock: Callable[[str, float], None],
    past: IncrementalCache,
    judged: Judged | None,
) -> FileReport:
    """The report on a text whose kernels without findings are executed. Raises SourceError for a launch file that is
    invalid or does not fit the kernel."""
    from tclint.driver.executing import Executor
    from tclint.executor.launch import LaunchError

    executor = Executor(source, config.execute_steps, config.selected, lambda: _launches(source.path, config))
    try:
        report = lint(source, config, clock, past, executor, judged)
    except LaunchError as error:
        raise SourceError(str(error)) from None
    unfinished = [
        OpenQuestion(run.entry, run.line, "execution", f"{run.end}: {run.reason}", 1)
        for run in executor.executions
        if run.end != "done"
    ]
    return replace(
        report,
        executions=tuple(executor.executions),
        open_questions=(*report.open_questions, *unfinished),
    )


def _launches(path: str, config: Config) -> LaunchFile | None:
    """The launch file for the kernels of an input, if there is one. Raises LaunchError."""
    from tclint.executor.launch import beside
    from tclint.executor.recorded import read

    found = config.launch or beside(path)
    return read(found) if found else None


def _proven(report: FileReport, config: Config, seconds: Counter[str], past: IncrementalCache) -> FileReport:
    from time import perf_counter

    from tclint.driver.fixing import verified_fixes

    began = perf_counter()
    report = verified_fixes(report, config, past)
    seconds.update({"fixes tried": perf_counter() - began})
    return report


def _confirmed(report: FileReport, config: Config, seconds: Counter[str]) -> FileReport:
    """Raises SourceError for a launch file that is invalid or does not fit the kernel."""
    from time import perf_counter

    from tclint.driver.confirm import confirm
    from tclint.executor.launch import LaunchError

    began = perf_counter()
    try:
        report = confirm(report, _launches(report.path, config), config.confirm_steps)
    except LaunchError as error:
        raise SourceError(str(error)) from None
    seconds.update({"confirm": perf_counter() - began})
    return report


# ---------------------------------------------------------------- several processes


def _in_processes(inputs: Iterable[Input], config: Config, jobs: int) -> Iterator[Checked]:
    with slots(jobs, workers=True) as free:
        yield from _in_pool(inputs, config, jobs, free)


def _in_pool(inputs: Iterable[Input], config: Config, jobs: int, free: Slots | None) -> Iterator[Checked]:
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    waiting: deque[tuple[Input, Future[Checked]]] = deque()
    pool = _pool(jobs, free)

    def result() -> Checked:
        nonlocal pool
        item, future = waiting.popleft()
        try:
            return future.result()
        except BrokenProcessPool:
            # The exception does not identify the input. Retry this one alone and then resubmit the others to a new
            # pool, in this order, so that no process is forked while another pool has threads.
            pool.shutdown()
            alone = _alone(item, config)
            if free is not None:
                free.reset()
            pool = _pool(jobs, free)
            again = [(other, submit(other)) for other, _ in waiting]
            waiting.clear()
            waiting.extend(again)
            return alone

    def submit(item: Input) -> Future[Checked]:
        try:
            return _submitted(pool, item, config)
        except BrokenProcessPool as error:
            failed: Future[Checked] = Future()
            failed.set_exception(error)
            return failed

    try:
        for item in inputs:
            waiting.append((item, submit(item)))
            if len(waiting) > jobs * _MAX_PENDING_PER_PROCESS:
                yield result()
        while waiting:
            yield result()
    except BaseException:
        _abandon(pool)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _alone(item: Input, config: Config) -> Checked:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1) as pool:
        try:
            return _submitted(pool, item, config).result()
        except BrokenProcessPool:
            member = item[1].member if isinstance(item[1], Source) else None
            return Checked(replace(FileReport.failed(item[0], _DIED), member=member), Counter())
        except BaseException:
            _abandon(pool)
            raise


def _elsewhere(inputs: Iterable[Input], config: Config, executor: Executor) -> Iterator[Checked]:
    """The result for each input, made by the workers of *executor*. Raises ExecutorError.

    An input whose worker died is linted on this machine, in a process of its own. So are all inputs that are left once the
    executor accepts no more because of a death.
    """
    from concurrent.futures import BrokenExecutor

    from tclint.cache.program import sources

    left, own = iter(inputs), sources()
    waiting: deque[tuple[Input, Future[Checked]]] = deque()
    try:
        while True:
            while len(waiting) < _MAX_PENDING_ELSEWHERE and (item := next(left, None)) is not None:
                waiting.append((item, _sent(executor, own, item, config)))
            if not waiting:
                return
            checked = _received(*waiting[0], config)
            waiting.popleft()
            yield checked
    except BrokenExecutor:
        here = chain([item for item, _ in waiting], left)
    finally:
        for _, future in waiting:
            future.cancel()
    yield from _in_processes(here, config, config.jobs or cores())


def _sent(executor: Executor, own: str, item: Input, config: Config) -> Future[Checked]:
    """The future of a report. Raises ExecutorError if *executor* is shut down."""
    from concurrent.futures import BrokenExecutor, Future

    try:
        return executor.submit(_check_alike, own, item, _narrowed(config, item))
    except BrokenExecutor as error:
        failed: Future[Checked] = Future()
        failed.set_exception(error)
        return failed
    except Exception as error:
        raise _unusable(error) from error


def _received(item: Input, future: Future[Checked], config: Config) -> Checked:
    """The result for one input. Raises BrokenExecutor if the executor ended, and ExecutorError for anything but a death."""
    from concurrent.futures import BrokenExecutor, CancelledError

    try:
        return future.result()
    except (BrokenExecutor, ExecutorError):
        raise
    except CancelledError:  # dask lost it
        return _alone(item, config)
    except Exception as error:
        if type(error).__name__ != _KILLED:
            raise _unusable(error) from error
        return _alone(item, config)


def _narrowed(config: Config, item: Input) -> Config:
    """*config* without the figures of other inputs, which would be sent along with each."""
    source = item[1]
    if config.gate is None or not isinstance(source, Source):
        return config
    return replace(config, gate=config.gate.only(source.path, source.member))


def _unusable(error: Exception) -> ExecutorError:
    return ExecutorError(f"the executor cannot be used: {type(error).__name__}: {error}")


def _check_alike(sources: str, item: Input, config: Config) -> Checked:
    """The result for one input, made by a worker of an executor. Raises ExecutorError if its tclint is another one."""
    from tclint._version import __version__
    from tclint.cache import program

    if program.sources() != sources:
        raise ExecutorError(f"a worker has another tclint (its version is {__version__})")
    return check(item, config)


def _submitted(pool: ProcessPoolExecutor, item: Input, config: Config) -> Future[Checked]:
    """The future of a report. Raises BrokenProcessPool."""
    config = _narrowed(config, item)
    with signals_held():  # submit() may fork
        return pool.submit(_check_in_pool, item, config)


def _check_in_pool(item: Input, config: Config) -> Checked:
    return check(item, config, _helpers)


def _abandon(pool: ProcessPoolExecutor) -> None:
    """Kills the processes of a pool, so that shutting it down does not wait for their work."""
    internals: Any = pool  # there is no public method before Python 3.14
    with suppress(AttributeError):  # nothing was submitted, or the pool is shut down
        processes = list(internals._processes.values())
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        # A process may have been killed halfway through a message. Then a thread of the pool reads the rest of a
        # result, another one writes the rest of an input, and both block, since this process holds the other end of
        # either pipe. From Python 3.11 on, the first thread closes the end for inputs itself; it must not be raced.
        internals._result_queue._writer.close()
        internals._executor_manager_thread.join(POLL_SECONDS)
        if internals._executor_manager_thread.is_alive():
            internals._call_queue._reader.close()


def _pool(jobs: int, free: Slots | None = None) -> ProcessPoolExecutor:
    """A pool whose processes share the kernels of a module with others while slots are *free*."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import tclint.linting.check  # noqa: F401  # once here, not in each process

    # A forked process inherits the ISA table and the rules. On other systems fork is unsafe or missing.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    return ProcessPoolExecutor(jobs, context, _serve, (free,))


def _serve(free: Slots | None) -> None:
    """Sets up this process, a worker, when it starts: the signals, its end, and the slots of the run."""
    from threading import Thread

    global _helpers
    _helpers = Helpers(free) if free is not None else None
    take_signals_of_worker()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process once its parent has ended, even if the parent was killed."""
    from multiprocessing import get_start_method, parent_process

    parent = parent_process()
    assert parent is not None
    # join() returns when the write end of a pipe closes. The parent holds that end, but so does every process that it
    # forked later, so the id of the parent is compared as well.
    forked = get_start_method() == "fork"
    while parent.is_alive() and not (forked and os.getppid() != parent.pid):
        parent.join(POLL_SECONDS)
    os._exit(1)  # sys.exit() would end only this thread
