"""The `bellwether ui` process: starts Dagster's UI and daemon, and queues unfinished runs for the next start.

Dagster runs in its own session (setsid), so that Ctrl-C does not reach its runs.
Concept: https://docs.dagster.io/deployment/oss/dagster-daemon
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO

import dagster as dg

from bellwether.database import AdvisoryLock
from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.formatting import counted
from bellwether.lake import Lake
from bellwether.settings import Settings
from orchestration.fleet import daemon_lock, end_lost_starts
from orchestration.home import CODE, LOCATION, prepare, storage_errors
from orchestration.orphaned_runs import UI, ProcessLock, end_orphans, requeue_runs, ui_note
from orchestration.site_server import HOST, open_site_server

_POLL_SECONDS = 0.2
#: Seconds for a daemon to launch the runs that it has taken from the queue.
_PATIENCE_SECONDS = 10.0
#: Age at which the UI replaces a connection to Postgres, which may have restarted.
_POOL_SECONDS = "2"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Shell script that ends Dagster (process $0) when the parent process ends.
_WATCHDOG = """
cat > /dev/null
kill -s INT "$0" 2> /dev/null
for second in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 "$0" 2> /dev/null || break; sleep 1; done
kill -s KILL -- "-$0" 2> /dev/null
"""


def serve(config: Settings, port: int, say: Callable[[str], None], host: str = HOST) -> int:
    """Run Dagster's UI and daemon until a signal arrives or Dagster ends. Returns the exit code, 0 after a signal. say: prints a line.

    Raises `ConfigError` when another UI serves this world or fleet, or the port is taken, and `LakeError` for a lake of another version.
    """
    Lake.of(config).require_readable()
    home = prepare(config)
    with storage_errors(home), dg.DagsterInstance.get() as instance, closing(_take_lock(config, instance)) as lock:
        if _is_listening(port):
            raise ConfigError(f"bellwether ui: port {port} is taken by another program; choose another one with --port")
        end_orphans(instance, of_ui=True)
        say(f"Starting Dagster's UI and daemon; their log is {home / 'ui.log'}")
        with _serve_site(config) as site, _catch_signals() as stopped, _rotate_log(home).open("w") as out:
            server = _start(dagster_command(port, write_workspace(home), host), out, lock.file, BELLWETHER_SITE_URL=site)
            with _watchdog(server):
                try:
                    _wait(server, stopped, lock, instance=instance, config=config, port=port, say=say)
                finally:
                    code = server.poll()
                    # After SIGTERM Dagster would record the runs of this machine as failed. Those of a fleet continue.
                    _end(server, patience=0 if config.fleet is None else _PATIENCE_SECONDS)
        if code is not None:
            log = (home / "ui.log").read_text(errors="replace").splitlines()
            say("\n".join(["Dagster ended; the last lines of its log:", *log[-10:]]))
            return code or 1
        queued = requeue_runs(instance)
        runs = f"{counted(len(queued), 'run')} in progress: queued for the next start. " if queued else ""
        say(f"Stopped. {runs}{'Stored results are kept.' if config.fleet is None else 'Workers finish their runs.'}")
        return 0


def _take_lock(config: Settings, instance: dg.DagsterInstance) -> ProcessLock | AdvisoryLock:
    """Return the lock of the only UI of this home, or of the only daemon of a fleet. Raises `ConfigError` if another process has it."""
    if config.fleet is not None:
        daemon = daemon_lock(config)
        if not daemon.acquire(wait=False):
            raise ConfigError("bellwether ui: another one serves this fleet; a second daemon would launch runs twice")
        return daemon
    process = ProcessLock(instance, UI)
    if not process.held:
        where = f" at {note}" if (note := ui_note(instance)) else ""
        process.close()
        raise ConfigError(f"bellwether ui: another UI already serves this world ({config.world_home}){where}")
    return process


def _wait(
    server: subprocess.Popen[bytes],
    stopped: Callable[[], bool],
    lock: ProcessLock | AdvisoryLock,
    *,
    instance: dg.DagsterInstance,
    config: Settings,
    port: int,
    say: Callable[[str], None],
) -> None:
    """Wait until Dagster ends or a signal arrives, and print when the UI is ready. In a fleet, end the runs of lost workers that have not started.

    Raises `ConfigError` if the connection to a fleet's Postgres was lost and another UI has taken the daemon's lock.
    """
    is_ready, checked = False, time.monotonic()
    while server.poll() is None and not stopped():
        time.sleep(_POLL_SECONDS)
        if not is_ready and _is_listening(port):
            is_ready = True
            if isinstance(lock, ProcessLock):
                lock.write(f"http://{HOST}:{port} (process {os.getpid()})")
            say(f"Ready: http://{HOST}:{port}. Ctrl-C stops it.")
        if isinstance(lock, AdvisoryLock) and time.monotonic() - checked >= config.heartbeat:
            checked = time.monotonic()
            _check_fleet(lock, instance)


def _check_fleet(lock: AdvisoryLock, instance: dg.DagsterInstance) -> None:
    """End the runs of lost workers that have not started. Raises `ConfigError` if another UI has taken the daemon's lock."""
    try:
        if is_held := lock.acquire(wait=False):
            end_lost_starts(instance)
    except Exception as error:  # Postgres or the broker may be restarting
        logging.getLogger(__name__).warning("checking the fleet: %s", error)
    else:
        if not is_held:
            raise ConfigError("bellwether ui: the connection to Postgres was lost, and another UI serves this fleet now")


def _is_listening(port: int) -> bool:
    """Return True if a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def dagster_command(port: int, workspace: Path, host: str = HOST) -> list[str]:
    """Return the command line that starts `dagster dev`."""
    return [
        str(Path(sys.executable).with_name("dagster")),
        "dev",
        "-w",
        str(workspace),
        "--host",
        host,
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]


def write_workspace(home: Path) -> Path:
    """Write Dagster's workspace.yaml and return its path. The file names the code's folder, so that nothing is imported from the working directory."""
    place = {"module_name": CODE, "working_directory": str(Path(__file__).resolve().parent.parent)}
    target = home / "workspace.yaml"
    with atomic_file(target) as draft:
        draft.write_text(json.dumps({"load_from": [{"python_module": {**place, "location_name": LOCATION}}]}))  # JSON is YAML
    return target


@contextmanager
def _serve_site(config: Settings) -> Iterator[str]:
    """Serve the static site on a free port of this machine, unless it has a public address or this is a fleet. Yields the address."""
    if config.site_url or config.fleet is not None:
        yield config.site_url or ""
        return
    with open_site_server(config.site_path) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()


def _rotate_log(home: Path) -> Path:
    """Rename the log of the previous start to ui.log.1, and return the path for the new log."""
    log = home / "ui.log"
    with suppress(FileNotFoundError):
        log.replace(home / "ui.log.1")
    return log


def _start(call: list[str], out: IO[str], keep: int, **environment: str) -> subprocess.Popen[bytes]:
    """Start Dagster in a session of its own. keep: file descriptor of a lock that Dagster inherits. environment: additional variables."""
    return subprocess.Popen(  # noqa: S603
        call,
        start_new_session=True,
        pass_fds=[keep],
        stdout=out,
        stderr=subprocess.STDOUT,
        # Steps must not import modules of the working directory.
        env={**os.environ, "PYTHONSAFEPATH": "1", "DAGSTER_WEBSERVER_DB_POOL_RECYCLE": _POOL_SECONDS, **environment},
    )


@contextmanager
def _watchdog(server: subprocess.Popen[bytes]) -> Iterator[None]:
    """End Dagster if this process ends within the `with` block, even by SIGKILL."""
    watchdog = subprocess.Popen(["sh", "-c", _WATCHDOG, str(server.pid)], stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603, S607
    try:
        yield
    finally:
        watchdog.kill()
        watchdog.communicate()


def _end(server: subprocess.Popen[bytes], patience: float) -> None:
    """Kill Dagster's processes by SIGKILL. patience: seconds that SIGINT has to end Dagster first."""
    if patience and server.poll() is None:
        server.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            server.wait(patience)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@contextmanager
def _catch_signals() -> Iterator[Callable[[], bool]]:
    """Catch SIGINT, SIGTERM and SIGHUP within the `with` block. Yields a function that returns True once one of them has arrived."""
    arrived: list[int] = []
    former = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in _SIGNALS}
    try:
        yield lambda: bool(arrived)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
