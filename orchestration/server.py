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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from threading import Thread
from typing import IO

import dagster as dg

from bellwether.database import AdvisoryLock
from bellwether.domains import DOMAINS
from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.formatting import counted
from bellwether.settings import Settings
from orchestration.fleet import daemon_lock, end_lost_starts
from orchestration.home import CODE, LOCATION, prepare, storage_errors
from orchestration.orphaned_runs import UI, ProcessLock, end_orphans, is_running, requeue_runs, ui_note
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

    Raises `ConfigError` when another UI serves this world or fleet, or the port is taken.
    """
    home = prepare(config)
    if config.fleet is not None:
        return _serve_fleet(config, home, dagster_command(port, write_workspace(home), host), say)
    with storage_errors(home), dg.DagsterInstance.get() as instance:
        process = ProcessLock(instance, UI)
        if not process.held:
            raise ConfigError(f"bellwether ui: another UI already serves this world ({config.world_home}){_describe_ui(instance)}")
        try:
            if _is_listening(port):
                raise ConfigError(f"bellwether ui: port {port} is taken by another program; choose another one with --port")
            end_orphans(instance, of_ui=True)
            with _serve_site(config.site_path) as site:
                environment = {"BELLWETHER_SITE_URL": config.site_url or site}
                code = _run_dagster(home, port, process, say, alarms=config.alarms_path, environment=environment)
            if code == 0:
                queued = requeue_runs(instance)
                runs = f"{counted(len(queued), 'run')} in progress: queued for the next start. " if queued else ""
                say(f"Stopped. {runs}Stored results are kept.")
            return code
        finally:
            process.close()


def _serve_fleet(config: Settings, home: Path, call: list[str], say: Callable[[str], None]) -> int:
    """Run a fleet's UI and its only daemon until a signal arrives or Dagster ends. Workers execute the runs, which continue when the UI stops."""
    lock = daemon_lock(config)
    if not lock.acquire(wait=False):
        raise ConfigError("bellwether ui: another one serves this fleet; a second daemon would launch runs twice")
    say(f"Starting the UI and the daemon of the fleet; their log is {home / 'ui.log'}")
    try:
        with _catch_signals() as stopped, _rotate_log(home).open("w") as out:
            server = _start(call, out, keep=lock.file, DAGSTER_WEBSERVER_DB_POOL_RECYCLE=_POOL_SECONDS)
            with _watchdog(server), dg.DagsterInstance.get() as instance:
                try:
                    _wait_fleet(server, lock, stopped, instance, config.heartbeat)
                finally:
                    ended = server.poll()
                    _end(server, patience=_PATIENCE_SECONDS)
    finally:
        lock.close()
    if ended is None:
        say("Stopped. Workers finish their runs; queued runs are launched when a UI starts again.")
        return 0
    return _report_end(ended, home / "ui.log", say)


def _wait_fleet(
    server: subprocess.Popen[bytes], lock: AdvisoryLock, stopped: Callable[[], bool], instance: dg.DagsterInstance, heartbeat: int
) -> None:
    """Wait until Dagster ends or a signal arrives, and end the runs of lost workers that have not started. heartbeat: seconds between checks.

    Raises `ConfigError` if the connection to Postgres was lost and another UI has taken the daemon's lock.
    """
    checked = time.monotonic()
    while server.poll() is None and not stopped():
        time.sleep(_POLL_SECONDS)
        if time.monotonic() - checked < heartbeat:
            continue
        checked = time.monotonic()
        try:
            if held := lock.acquire(wait=False):
                end_lost_starts(instance)
        except Exception as error:  # Postgres or the broker may be restarting
            logging.getLogger(__name__).warning("checking the fleet: %s", error)
        else:
            if not held:
                raise ConfigError("bellwether ui: the connection to Postgres was lost, and another UI serves this fleet now")


def _announce_ui(process: ProcessLock, port: int, dagster: int) -> None:
    """Write into the UI's lock where the UI is. dagster: process id of `dagster dev`."""
    process.write(json.dumps({"port": port, "ui": os.getpid(), "dagster": dagster}))


def _describe_ui(instance: dg.DagsterInstance) -> str:
    """Describe the address of this home's UI and how to stop it; empty if no UI is ready."""
    note = json.loads(ui_note(instance) or "{}")
    if not note:
        return ""
    stop = f"kill {note['ui']}" if is_running(note["ui"]) else f"kill -- -{note['dagster']}"
    return f" at http://{HOST}:{note['port']}; to stop it: {stop}"


def _is_listening(port: int) -> bool:
    """Return True if a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def describe_groups(port: int) -> str:
    """Return a text that describes the asset groups, with links to their pages in the UI. port: of the UI."""
    lines = []
    for domain in DOMAINS:
        for group, text in domain.groups.items():
            page = f"http://{HOST}:{port}/locations/{LOCATION}/asset-groups/{group}"
            lines += [f"  {group}: {page}", *wrap(text.replace("`", ""), 96, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(["What it shows:", *lines, "Automation updates derived tables; runs that you launch have priority."])


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


def _run_dagster(
    home: Path, port: int, process: ProcessLock, say: Callable[[str], None], *, alarms: Path, environment: Mapping[str, str]
) -> int:
    """Run Dagster until it ends or a signal arrives. Returns the exit code, 0 after a signal. Dagster's output goes to `ui.log`.

    alarms: file whose new lines are printed. environment: additional environment variables.
    """
    say(f"Starting Dagster's UI and daemon; their log is {home / 'ui.log'}")
    read_alarms = _line_reader(alarms)
    with _catch_signals() as stopped, _rotate_log(home).open("w") as out:
        server = _start(dagster_command(port, write_workspace(home)), out, keep=process.file, **environment)
        ready = False
        try:
            while server.poll() is None and not stopped():
                if not ready and _is_listening(port):
                    ready = True
                    _announce_ui(process, port, server.pid)
                    say(describe_groups(port))
                    say(f"Ready: http://{HOST}:{port}. Ctrl-C stops it; runs in progress continue at the next start.")
                if text := read_alarms():
                    say(text)
                time.sleep(_POLL_SECONDS)
        finally:
            ended = server.poll()
            _end(server)
    return 0 if ended is None else _report_end(ended, home / "ui.log", say)


@contextmanager
def _serve_site(folder: Path) -> Iterator[str]:
    """Serve the static site on a free port of this machine. Yields the address."""
    with open_site_server(folder) as server:
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


def _start(call: list[str], out: IO[str], *, keep: int, **environment: str) -> subprocess.Popen[bytes]:
    """Start Dagster in a session of its own. keep: file descriptor of a lock that Dagster inherits. environment: additional variables."""
    return subprocess.Popen(  # noqa: S603
        call,
        start_new_session=True,
        pass_fds=[keep],
        stdout=out,
        stderr=subprocess.STDOUT,
        # Steps must not import modules of the working directory.
        env={**os.environ, "PYTHONSAFEPATH": "1", **environment},
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


def _end(server: subprocess.Popen[bytes], patience: float = 0) -> None:
    """Kill Dagster's processes by SIGKILL, since after SIGTERM Dagster would record its runs as failed. patience: seconds that SIGINT has to end
    Dagster first.
    """
    if patience and server.poll() is None:
        server.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            server.wait(patience)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _report_end(code: int, log: Path, say: Callable[[str], None]) -> int:
    say("\n".join(["Dagster ended; the last lines of its log:", *log.read_text(errors="replace").splitlines()[-10:]]))
    return code or 1


def _line_reader(path: Path) -> Callable[[], str]:
    """Return a function that returns the complete lines appended to a text file since its last call. The file may be missing at first."""
    position = path.stat().st_size if path.exists() else 0

    def read_lines() -> str:
        nonlocal position
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(position)
            lines, end, _ = file.read().rpartition(b"\n")
            position += len(lines + end)
            return lines.decode(errors="replace")
        return ""

    return read_lines


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
