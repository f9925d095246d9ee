"""Compilation at the end of an installation: `python -m orchestration.precompile`.

Imports all modules of the project, which stores their bytecode, and replays an event of the sandbox, which stores numba's machine code.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import dagster as dg

from bellwether.errors import BellwetherError
from bellwether.recordings.captures import import_captures
from bellwether.replay import prepare, run
from bellwether.replay.agents.builtin import BuyAndHold
from bellwether.replay.episode.folder import write
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.results.books import books
from bellwether.replay.results.metrics import metrics
from bellwether.sandbox.replayer import CAPTURES

PACKAGES = ("bellwether", "assets", "resources", "orchestration", "cli")
#: Packages that take seconds to import and that most commands do not need.
_RARE = ("great_expectations", "litellm")
#: Time of the computed tables; any will do.
_NOW = datetime(2026, 10, 1, tzinfo=UTC)


def import_all(packages: Iterable[str]) -> list[str]:
    """Import every module of the packages, and all modules imported by these, also inside functions. Returns the names of the packages' modules.

    Skips extras that are not installed, and two packages that take seconds to import.
    """
    names = []
    for module in _modules(packages):
        names.append(module.__name__)
        for used in _imports(module):
            if used.partition(".")[0] not in _RARE:
                with suppress(ImportError, BellwetherError):
                    importlib.import_module(used)
    return names


def _modules(packages: Iterable[str]) -> Iterator[ModuleType]:
    for package in packages:
        root = importlib.import_module(package)
        yield root
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            # These run commands when they are imported.
            if module.name.rpartition(".")[2] != "__main__":
                with suppress(ImportError, BellwetherError):
                    yield importlib.import_module(module.name)


def _imports(module: ModuleType) -> set[str]:
    """Return the names of all modules that a module's code imports, also inside functions."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    return imported | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level}


def compile_replay() -> None:
    """Replay the shortest capture once, so that numba compiles all code from episode to metrics and stores it."""
    capture = min(CAPTURES.glob("*.json.gz"), key=lambda path: path.stat().st_size)
    with tempfile.TemporaryDirectory() as folder:
        (recording,) = import_captures(Path(folder) / "recordings", capture)
        for draft in build_recording(recording):
            episode = write(Path(folder) / draft.metadata.episode_id, draft)
            metrics(run(episode, BuyAndHold()))
            books(prepare(episode).tape, episode.id, _NOW)


def run_empty_job() -> None:
    """Execute a run that does nothing, so that Dagster's executor is imported."""

    @dg.op
    def nothing() -> None:
        pass

    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    dg.GraphDefinition("nothing", node_defs=[nothing]).execute_in_process(run_config=quiet)


if __name__ == "__main__":
    import_all(PACKAGES)
    run_empty_job()
    compile_replay()
