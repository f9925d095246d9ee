"""A whole fleet on one machine: servers, a UI with its daemon, and workers. Each node (UI, worker, or the laptop that runs commands) has its own
home.

`python -m deploy.fleet` runs the demo on this fleet, compares its tables with those of an embedded demo, and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from bellwether.settings import settings
from deploy import loopback
from deploy.loopback import Process, Processes

ROOT = Path(__file__).resolve().parent.parent
BELLWETHER = Path(sys.executable).with_name("bellwether")
#: Tables and column that depend on how days are divided into runs, since the first day of each run asks Gamma how it lists, and on kills of pulls.
PER_RUN, ATTEMPTS = ("raw.kalshi_pulls", "raw.polymarket_pulls"), "attempts"
#: What nodes take over from this environment.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "COLUMNS", "NUMBA_CACHE_DIR", "PYTHONPATH", "TERM", "TZ")


class Fleet:
    """Fleet on this machine: servers, UI and workers. All processes end with the `with` block.

    Args:
        workers: number of workers.
        changes: more environment variables of all nodes.
        apart: whether each worker has process namespaces of its own, as on a machine of its own.
    """

    def __init__(self, workers: int = 2, changes: Mapping[str, str] | None = None, *, apart: bool = False) -> None:
        self._count, self._given = workers, dict(changes or {})
        self._apart = loopback.namespaces() if apart else []

    def __enter__(self) -> Self:
        self._processes = Processes()
        self.folder = self._processes.__enter__().folder
        try:
            self.postgres = loopback.postgres(self._processes)
            self.redis = loopback.redis(self._processes)
            self.store = loopback.object_store(self._processes)
            (port,) = loopback.free_ports(1)
            self.settings = self._settings(port)
            self.ui = self._node("ui", ["ui", "--port", str(port)], lambda: loopback.is_listening(port))
            self._processes.launch(self.ui)
            self.workers = list[Process]()
            for _ in range(self._count):
                self.add_worker()
            for node in (self.ui, *self.workers):
                node.wait()
        except BaseException:
            self._processes.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.__exit__()

    def environment(self, node: str) -> dict[str, str]:
        """Return the environment variables of a node. node: its name, such as laptop."""
        return {**self.settings, "BELLWETHER_HOME": str(self.folder / "homes" / node)}

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses of the servers, without credentials, and the folder of the logs."""
        servers = {"Postgres": self.postgres.url, "Redis": self.redis.url, "object store": self.store.url}
        return {
            "UI": self.settings["BELLWETHER_UI"],
            **{name: url.rpartition("@")[2] for name, url in servers.items()},
            "files": self.settings["BELLWETHER_STORE"],
            "logs": f"{self.folder}/*.log",
        }

    @property
    def embedded(self) -> dict[str, str]:
        """Environment variables of a single machine without a fleet, whose results can be compared with the fleet's."""
        return {**_inherited(), **self._given, "BELLWETHER_HOME": str(self.folder / "homes" / "embedded")}

    def add_worker(self) -> None:
        """Start one more worker, without waiting until the worker is ready."""
        name = f"worker-{len(self.workers) + 1}"

        def ready() -> bool:
            return f"Worker {name} is ready" in (self.folder / f"{name}.log").read_text(errors="replace")

        worker = self._node(name, ["worker", "--name", name], ready)
        if self._apart:  # the first process of a namespace receives no SIGTERM
            worker.command, worker.signal = [*self._apart, *worker.command], signal.SIGKILL
        self.workers.append(worker)
        self._processes.launch(self.workers[-1])

    def command(self, *words: str, node: str = "laptop", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of `bellwether` on a node and wait for the end. check: raise `RuntimeError`, with the output, if the command fails."""
        done = subprocess.run(
            [BELLWETHER, *words], env=self.environment(node), cwd=self.folder, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"bellwether {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def begin(self, *words: str, node: str = "laptop") -> subprocess.Popen[str]:
        """Start a command of `bellwether` on a node, without waiting for the end."""
        return subprocess.Popen(
            [BELLWETHER, *words],
            env=self.environment(node),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _settings(self, port: int) -> dict[str, str]:
        return {
            **_inherited(),
            **loopback.credentials(self.store.url),
            "BELLWETHER_FLEET": "celery",
            "BELLWETHER_WORKERS": str(self._count),
            "BELLWETHER_POSTGRES": self.postgres.url,
            "BELLWETHER_BROKER": self.redis.url,
            "BELLWETHER_UI": f"http://127.0.0.1:{port}",
            "BELLWETHER_STORE": f"s3://{loopback.BUCKET}/files",
            **self._given,
        }

    def _node(self, name: str, words: list[str], ready: Callable[[], bool]) -> Process:
        folder = self.folder / name
        folder.mkdir()
        command = [BELLWETHER, *words]
        return Process(command, folder, ready, environment=self.environment(name), patience=300)


def _inherited() -> dict[str, str]:
    given = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**given, "DAGSTER_DISABLE_TELEMETRY": "1", "GX_ANALYTICS_ENABLED": "false"}


def published(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return row count and column digests of all tables and views in a node's warehouse. Run ids, wall times and attempts of pulls are left out."""
    from tests.golden.digests import tables

    with patch.dict(os.environ, environment, clear=True):
        settings.cache_clear()
        try:
            found = dict(tables(settings().warehouse_uri))
            for name in PER_RUN:
                found.get(name, {"columns": {}})["columns"].pop(ATTEMPTS, None)
            return found
        finally:
            settings.cache_clear()


def compare(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """List the differences between the published tables of two nodes. one, other: environment variables of the nodes."""
    from tests.golden.digests import differences

    return differences({"tables": published(one)}, {"tables": published(other)})


def main(words: list[str]) -> int:
    """Run the demo on a fleet, compare the tables with those of a single machine, and serve until Ctrl-C. Returns 1 if tables differ.

    words: options of `bellwether demo`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m deploy.fleet",
        allow_abbrev=False,
        description="Run the demo on a fleet on loopback, compare its tables with those of an embedded demo, and serve until Ctrl-C.",
        epilog="Options are those of `bellwether demo`.",
    )
    words = parser.parse_known_args(words)[1]
    print("Starting Postgres, Redis, an object store, a UI and two workers on loopback ...", flush=True)
    with Fleet() as fleet:
        for name, address in fleet.addresses.items():
            print(f"  {name:13} {address}")
        exports = fleet.folder / "settings.sh"
        exports.touch(mode=0o600)
        given = fleet.environment("laptop").items()
        exports.write_text("".join(f"export {name}={value}\n" for name, value in given if name.startswith(("BELLWETHER_", "AWS_"))))
        print(f"Commands of another shell use it after: . {exports}\n", flush=True)
        subprocess.run([BELLWETHER, "demo", *words], env=fleet.environment("laptop"), cwd=fleet.folder, check=True)
        print("\nThe same demo on one machine, for comparison ...", flush=True)
        subprocess.run([BELLWETHER, "demo", *words], env=fleet.embedded, cwd=fleet.folder, check=True, stdout=subprocess.DEVNULL)
        different = compare(fleet.embedded, fleet.environment("laptop"))
        print("\n".join(different) if different else "All tables are equal.")
        print(f"UI: {fleet.settings['BELLWETHER_UI']}. Ctrl-C stops everything.", flush=True)
        with suppress(KeyboardInterrupt):
            while sys.stdin.isatty():
                signal.pause()
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
