"""Fixtures shared by all tests: recordings of real venues, servers, and an environment without the developer's settings."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from deploy import loopback
from tests.limits import Limits, find_folder
from tests.shared import shared_folder
from tests.sizes import EXAMPLES, NIGHTLY
from tests.stores import bucket, s3_server

if TYPE_CHECKING:
    from bellwether.journal.journal import Journal
    from tests.captures import Captures
    from tests.demo_home import World
    from tests.unit.journal.calls import Clock

__all__ = ["bucket", "s3_server"]

ROOT = Path(__file__).resolve().parent.parent
#: Read before the environment is cleaned, because commands under test use this variable for their output. Child processes inherit it.
_RECORDINGS = Path(
    os.environ.setdefault("RECORDINGS_OF_TESTS", os.environ.get("BELLWETHER_RECORDINGS", str(ROOT.parent / "shared" / "data")))
)
for _name in [name for name in os.environ if name.startswith("BELLWETHER_")]:
    del os.environ[_name]
# Each test process has one core. More threads of linear algebra would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A shell that runs the tests in the background ignores Ctrl-C for them and for the processes that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The time to draw an example depends on the load of the machine. The examples of `make test` are the same in each run.
hypothesis.settings.register_profile(
    "bellwether", deadline=None, max_examples=EXAMPLES, derandomize=not NIGHTLY, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("bellwether")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Stop Dagster from reading the state of definitions from the instance of an earlier test, which may be closed."""
    noted = sys.modules.get("dagster._core.storage.defs_state.base")
    if noted is not None:
        noted.DefsStateStorage.get = classmethod(lambda _: None)


#: Folder in memory for tests, and the minimum of free bytes there and in the machine.
_IN_MEMORY, _ENOUGH = Path("/dev/shm"), 8 * 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `tests/limits.py`."""
    parser.addoption("--costs", help="write the CPU seconds of each test to this file")
    parser.addoption("--budgets", action="store_true", help="compare seconds and lines per folder with tests/limits.toml")


def pytest_configure(config: pytest.Config) -> None:
    """Register the limits. Keep temporary folders in memory if there is enough, because lakes and Dagster's databases flush every write to disk."""
    config.pluginmanager.register(Limits(config), "limits")
    # Almost nothing of what is imported becomes garbage.
    gc.disable()
    if config.option.basetemp is None and _IN_MEMORY.is_dir():
        free = min(shutil.disk_usage(_IN_MEMORY).free, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
        if free >= _ENOUGH:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


#: Folders of the costliest tests.
_FIRST = ("golden", "graph", "nightly", "processes", "cli")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in `nightly/`, and run costly folders first, so that none of their tests is still running alone at the end."""
    folders = {path: find_folder(path) for path in {item.path for item in items}}
    for item in items:
        if folders[item.path] == "nightly":
            item.add_marker("nightly")
    items.sort(key=lambda item: folders[item.path] not in _FIRST)


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection, because they live as long as the process."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 100)


#: Folders whose tests draw pages with charts.
_DRAWING = frozenset(
    {"cli", "golden", "graph", "unit/docs", "unit/figures", "unit/kalshibench", "unit/report", "unit/scoring", "unit/site"}
)


@pytest.fixture(scope="session", autouse=True)
def _built_once(request: pytest.FixtureRequest) -> None:
    """Build outside of tests what a process builds once and takes seconds: Hypothesis's table of characters and the library of charts."""
    hypothesis.strategies.text().validate()
    if any(find_folder(item.path) in _DRAWING for item in request.session.items):
        from bellwether.pages.render import chart_library

        chart_library()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the developer's settings, and keep all written files in the test's folder."""
    from bellwether.settings import settings

    for name in [name for name in os.environ if name.startswith("BELLWETHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    settings.cache_clear()


@pytest.fixture(scope="session")
def recordings() -> Path:
    """Folder with recordings of the real venues. Skips the test if there is none."""
    if not _RECORDINGS.is_dir():
        pytest.skip(f"no recordings of the real venues at {_RECORDINGS} (set BELLWETHER_RECORDINGS)")
    return _RECORDINGS


@pytest.fixture(scope="session")
def captures(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """Captures of Kalshi's stream, imported and built once for all processes of the run."""
    from tests.captures import Captures

    return Captures(recordings / "kalshi", shared_folder(tmp_path_factory) / "captures")


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo home, which tests only read. It is built once for all processes of the run."""
    from tests.demo_home import shared_home

    return shared_home(shared_folder(tmp_path_factory))


@pytest.fixture(scope="session")
def _opened_demo(demo_home: Path) -> Iterator[World]:
    from tests.demo_home import open_world

    world = open_world(demo_home)
    with world.instance:
        yield world


@pytest.fixture
def demo(_opened_demo: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The demo home, opened and selected in the environment, for a test that only reads."""
    from tests.demo_home import selected

    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with selected(_opened_demo.config.home):
        yield _opened_demo


@pytest.fixture
def demo_copy(demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A copy of the demo home for a test that writes, selected in the environment. Its runs draw no pictures."""
    from bellwether.pages import charts
    from tests.demo_home import open_copy, selected

    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(charts, "png", lambda *_: b"\x89PNG")
    with selected(tmp_path / "demo"):
        world = open_copy(demo_home, tmp_path / "demo")
        with world.instance:
            yield world


def _served(start: Callable[[loopback.Processes], loopback.Process]) -> Iterator[loopback.Process]:
    try:
        with loopback.Processes() as processes:
            yield start(processes)
    except loopback.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[loopback.Process]:
    """Postgres server for the session. Its `url` includes the database."""
    yield from _served(loopback.postgres)


_schemas = itertools.count(1)


@pytest.fixture
def postgres_url(postgres_server: loopback.Process) -> str:
    """URL of an empty Postgres schema."""
    import psycopg

    schema = f"journal_{next(_schemas)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgres_server.url}?options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database of a journal, of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/journal.db"


@pytest.fixture
def clock() -> Clock:
    """Clock of a journal, which tests advance."""
    from tests.unit.journal.calls import Clock

    return Clock()


@pytest.fixture
def journal(url: str, clock: Clock) -> Iterator[Journal]:
    """A journal with the tests' clock."""
    from bellwether.journal.journal import Journal

    with Journal(url, clock=clock, patience=10) as opened:
        yield opened


@pytest.fixture(scope="session")
def redis_server() -> Iterator[loopback.Process]:
    """Redis server for the session."""
    yield from _served(loopback.redis)


@pytest.fixture(scope="session")
def object_store() -> Iterator[loopback.Process]:
    """S3 server with the bucket `bellwether`, for the session. `loopback.credentials(url)` returns the variables for clients."""
    yield from _served(loopback.object_store)
