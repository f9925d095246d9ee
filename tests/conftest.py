"""Fixtures shared by all tests: where recordings of the real venues are, and an environment without anyone's settings."""

from __future__ import annotations

import gc
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
from tests.shared import shared
from tests.stores import bucket, s3_server

if TYPE_CHECKING:
    from tests.captures import Captures

__all__ = ["bucket", "s3_server"]

ROOT = Path(__file__).resolve().parent.parent
#: Read before the environment is cleaned: for the commands under test this variable is the folder that they record into. Processes of the run inherit it.
_RECORDINGS = Path(
    os.environ.setdefault("RECORDINGS_OF_TESTS", os.environ.get("BELLWETHER_RECORDINGS", str(ROOT.parent / "shared" / "data")))
)
for _name in [name for name in os.environ if name.startswith("BELLWETHER_")]:
    del os.environ[_name]
# Each process of the tests has a core: threads of linear algebra would wait for each other in a loop.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A shell that runs the tests in the background ignores Ctrl-C for them, and with them for the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# How fast examples are drawn tells of the machine and what else it does.
hypothesis.settings.register_profile("bellwether", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("bellwether")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol() -> None:
    """Dagster notes the instance that a test opens, and asks it for the state of definitions, which there is none of, also after it is gone."""
    noted = sys.modules.get("dagster._core.storage.defs_state.base")
    if noted is not None:
        noted.DefsStateStorage.get = classmethod(lambda _: None)


#: Where folders of tests are kept in memory, and how many bytes must be free there and in the machine.
_IN_MEMORY, _ENOUGH = Path("/dev/shm"), 8 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of tests in memory where there is plenty: lakes and Dagster's databases flush every write to the disk."""
    if config.option.basetemp is None and _IN_MEMORY.is_dir():
        free = min(shutil.disk_usage(_IN_MEMORY).free, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
        if free >= _ENOUGH:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no process is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Modules and tests live as long as the process: the garbage collector need not look at millions of their objects again and again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer reaches a test, and nothing is written outside its own folder."""
    from bellwether.settings import settings

    for name in [name for name in os.environ if name.startswith("BELLWETHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    settings.cache_clear()


@pytest.fixture(scope="session")
def recordings() -> Path:
    """Folder with recordings of the real venues; the test skips where there is none."""
    if not _RECORDINGS.is_dir():
        pytest.skip(f"no recordings of the real venues at {_RECORDINGS} (set BELLWETHER_RECORDINGS)")
    return _RECORDINGS


@pytest.fixture(scope="session")
def captures(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """The captures of Kalshi's stream, imported and built once for all processes of the run."""
    from tests.captures import Captures

    return Captures(recordings / "kalshi", shared(tmp_path_factory) / "captures")


def _served(start: Callable[[loopback.Processes], loopback.Process]) -> Iterator[loopback.Process]:
    try:
        with loopback.Processes() as processes:
            yield start(processes)
    except loopback.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[loopback.Process]:
    """Postgres with the database of its `url`, for the session."""
    yield from _served(loopback.postgres)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[loopback.Process]:
    """Redis at its `url`, for the session."""
    yield from _served(loopback.redis)


@pytest.fixture(scope="session")
def object_store() -> Iterator[loopback.Process]:
    """An S3 server with the bucket `bellwether`, for the session; `loopback.credentials(url)` are variables of its clients."""
    yield from _served(loopback.object_store)
