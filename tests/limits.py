"""Plugin that keeps the suite fast: limits of each test, and budgets of seconds and lines per folder (tests/limits.toml).

An unmarked test of `make test` may use 2 CPU seconds (4 on a busy machine) in its call phase; fixtures, imports, numba's compilation and child
processes are not counted. Only `processes/` and `cli/` start processes, only `graph/` executes runs of Dagster, and no test sleeps. `--costs FILE`
writes the CPU seconds of each test as JSON lines, and `--budgets` compares those of each folder, child processes included, with its budget.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import multiprocessing.process
import resource
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import NIGHTLY

TESTS = Path(__file__).resolve().parent
#: CPU seconds of an unmarked test, and seconds of a sleep. Two seconds on a quiet machine take up to four next to lint and other tests.
MOST_SECONDS, LONGEST_SLEEP = 4.0, 0.2
#: Folders whose tests may do what others may not.
WITH_PROCESSES, WITH_RUNS = frozenset({"processes", "cli"}), frozenset({"graph"})
#: Folders and markers without limits.
FREE_FOLDERS, FREE_MARKERS = frozenset({"golden", "fleet", "browser", "nightly"}), ("nightly", "fleet", "browser")
_START = pytest.StashKey[float]()
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass
class Watch:
    """What the current test does: processes started, longest sleep in seconds, runs of Dagster, and CPU seconds that are not counted."""

    processes: list[str] = field(default_factory=list)
    longest_sleep: float = 0.0
    runs: int = 0
    uncounted: float = 0.0
    depth: int = 0

    @contextmanager
    def exempt(self) -> Iterator[None]:
        """Leave out the CPU seconds of this block; blocks inside one another are left out once."""
        self.depth += 1
        start = time.process_time()
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self.uncounted += time.process_time() - start


def find_faults(folder: str, seconds: float, watch: Watch) -> list[str]:
    """Return what a test did that its folder does not allow. seconds: counted CPU seconds of its call phase."""
    faults = []
    if seconds > MOST_SECONDS:
        faults.append(f"used {seconds:.1f} CPU seconds; at most {MOST_SECONDS:g}, or mark it nightly")
    if watch.processes and folder not in WITH_PROCESSES:
        faults.append(f"started a process ({watch.processes[0]}); only tests in {' and '.join(sorted(WITH_PROCESSES))} do")
    if watch.runs and folder not in WITH_RUNS:
        faults.append("executed a run of Dagster; only tests in graph do")
    if watch.longest_sleep > LONGEST_SLEEP:
        faults.append(f"slept {watch.longest_sleep:g} seconds; inject the delay")
    return faults


def find_folder(path: Path) -> str:
    """Return the budget's folder of a test file: unit/<package>, or the first folder below tests."""
    parts = path.relative_to(TESTS).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("unit",) else 1])


def count_lines() -> dict[str, int]:
    """Count the lines of all Python files of tests by folder."""
    lines: dict[str, int] = defaultdict(int)
    for path in TESTS.rglob("*.py"):
        lines[find_folder(path)] += len(path.read_text(encoding="utf-8").splitlines())
    return dict(lines)


def find_excess(what: str, found: Mapping[str, float], budgets: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the folders that exceed their budget of lines or seconds, or have none."""
    excess = []
    for folder, amount in sorted(found.items()):
        budget = budgets.get(folder, {}).get(what, 0)
        if amount > budget:
            excess.append(f"tests/{folder}: {amount:.0f} {what}; the budget in tests/limits.toml is {budget}")
    return excess


class Limits:
    """Pytest plugin of the limits. Watches are per process; the process that reports adds up the seconds."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._watch: Watch | None = None
        self._limits = tomllib.loads((TESTS / "limits.toml").read_text(encoding="utf-8"))
        self._costs: dict[str, dict[str, float]] = {}
        self._outcomes: dict[str, str] = {}
        self._excess: list[str] = []
        self._observes_numba = self._observes_dagster = False
        self._observe_starts()

    def _observe_starts(self) -> None:
        """Note processes, sleeps and imports of the current test. Other threads may belong to an earlier test, so their sleeps are left out."""

        def audit(event: str, arguments: tuple[Any, ...]) -> None:
            if self._watch is not None and event in _STARTS:
                self._watch.processes.append(" ".join([event, *map(str, arguments[:2])])[:160])

        def note_sleep(seconds: float) -> None:
            if self._watch is not None and threading.current_thread() is threading.main_thread():
                self._watch.longest_sleep = max(self._watch.longest_sleep, seconds)

        sleep, sleep_in_loop = time.sleep, asyncio.sleep

        def slept(seconds: float) -> None:
            note_sleep(seconds)
            sleep(seconds)

        async def slept_in_loop(delay: float, result: Any = None) -> Any:
            begin = time.monotonic()
            try:
                return await sleep_in_loop(delay, result)
            finally:
                # A task that waits for the next poll is often cancelled at once.
                note_sleep(min(delay, time.monotonic() - begin))

        load, start = builtins.__import__, multiprocessing.process.BaseProcess.start

        def imported(name: str, *rest: Any, **options: Any) -> Any:
            if self._watch is None or name in sys.modules:
                return load(name, *rest, **options)
            with self._watch.exempt():
                return load(name, *rest, **options)

        def started(process: Any) -> None:
            if self._watch is not None:
                self._watch.processes.append(process.name)
            start(process)

        sys.addaudithook(audit)
        time.sleep, asyncio.sleep = slept, slept_in_loop
        builtins.__import__ = imported
        multiprocessing.process.BaseProcess.start = started  # type: ignore[method-assign]

    def _observe_loaded(self) -> None:
        """Note compilations and runs, once numba and Dagster are loaded."""
        if "numba" in sys.modules and not self._observes_numba:
            self._observes_numba = True
            from numba.core import event

            limits = self

            class Compilations(event.Listener):
                def __init__(self) -> None:
                    self._blocks: list[Any] = []

                def on_start(self, event: Any) -> None:
                    self._blocks.append(limits._watch.exempt() if limits._watch else None)
                    if self._blocks[-1]:
                        self._blocks[-1].__enter__()

                def on_end(self, event: Any) -> None:
                    block = self._blocks.pop() if self._blocks else None
                    if block:
                        block.__exit__(None, None, None)

            event.register("numba:compile", Compilations())
        if "dagster" in sys.modules and not self._observes_dagster:
            self._observes_dagster = True
            import dagster as dg

            create = dg.DagsterInstance.create_run

            def counted(instance: dg.DagsterInstance, *arguments: Any, **options: Any) -> Any:
                if self._watch is not None:
                    self._watch.runs += 1
                return create(instance, *arguments, **options)

            dg.DagsterInstance.create_run = counted  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Start the count of CPU seconds of a test with its fixtures."""
        item.stash[_START] = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail a test that exceeds its limits."""
        self._observe_loaded()
        watch = self._watch = Watch()
        start = time.process_time()
        try:
            result = yield
        finally:
            seconds = time.process_time() - start - watch.uncounted
            self._watch = None
            item.user_properties.append(("call", seconds))
        folder = find_folder(item.path)
        free = folder in FREE_FOLDERS or any(item.get_closest_marker(marker) for marker in FREE_MARKERS)
        if not free and item.nodeid.removeprefix("tests/") not in self._limits["exempt"]:
            faults = find_faults(folder, 0.0 if NIGHTLY else seconds, watch)
            if faults:
                pytest.fail(f"{item.nodeid} {'; '.join(faults)} (tests/limits.py)", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """End the count of CPU seconds."""
        result = yield
        item.user_properties.append(("cpu", cpu_seconds() - item.stash[_START]))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the seconds of a test that has ended, also in another process."""
        if report.when == "call" or report.outcome != "passed":
            self._outcomes.setdefault(report.nodeid, report.outcome)
        if report.when == "teardown":
            self._costs[report.nodeid] = dict(report.user_properties)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare the budgets after a run of all folders, and write the costs."""
        if hasattr(self._config, "workerinput"):
            return
        path = self._config.getoption("--costs")
        if path:
            lines = [json.dumps([test, self._outcomes.get(test, "passed"), costs]) for test, costs in self._costs.items()]
            Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if self._config.getoption("--budgets"):
            seconds: dict[str, float] = defaultdict(float)
            for test, costs in self._costs.items():
                seconds[find_folder(self._config.rootpath / test.partition("::")[0])] += costs.get("cpu", 0.0)
            budgets = self._limits["folders"]
            self._excess = [*find_excess("seconds", seconds, budgets), *find_excess("lines", count_lines(), budgets)]
            if self._excess:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the folders that exceed their budgets."""
        for line in self._excess:
            terminalreporter.write_line(f"BUDGET {line}", red=True)
