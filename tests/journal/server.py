"""A Postgres server of the tests' own: on a socket in a temporary folder, without TCP, as a user who is not root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Nothing of a test's server must survive a crash of the machine.
FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=100", "listen_addresses=", "log_min_messages=panic")
PASSWORD = "pa55-w0rd/secret"


class Unavailable(Exception):
    """There is no Postgres here, or it does not start; says why."""


def binaries() -> Path:
    """Folder with initdb and postgres: on PATH, or where Debian puts them, the newest version first."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: [int(part) for part in re.findall(r"\d+", str(path))])
    found = shutil.which("initdb")
    for folder in [*([Path(found).resolve().parent] if found else []), *reversed(versions)]:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise Unavailable("Postgres is not installed (no initdb on PATH or in /usr/lib/postgresql/*/bin)")


def identity() -> dict[str, Any]:
    """Arguments of subprocess that give root's privileges up: the server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise Unavailable("Postgres does not run as root, and there is no user postgres or nobody")


@contextmanager
def running() -> Iterator[Path]:
    """The folder of the socket, while the server runs. Raises `Unavailable`."""
    programs, user = binaries(), identity()
    folder = Path(tempfile.mkdtemp(prefix="bw-pg-", dir="/tmp"))
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        data = folder / "data"
        shared: dict[str, Any] = {**user, "cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}}
        _make(programs, data, shared)
        options = [part for setting in (*FAST, f"unix_socket_directories={folder}") for part in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([programs / "postgres", "-D", data, *options], stdout=log, stderr=log, **shared)
        try:
            _wait(server, folder)
            yield folder
        finally:
            _end(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make(programs: Path, data: Path, shared: dict[str, Any]) -> None:
    command: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        "bellwether",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
        "--no-instructions",
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **shared)
    if made.returncode:
        raise Unavailable(f"initdb failed: {made.stderr.strip()}")
    rules = data / "pg_hba.conf"
    rules.write_text("local all careful scram-sha-256\n" + rules.read_text())


def _wait(server: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    until = time.monotonic() + 120
    while True:
        try:
            psycopg.connect(host=str(folder), user="bellwether", dbname="postgres").close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"Postgres does not start: {(folder / 'log').read_text(errors='replace')[-500:]} {error}") from error
            time.sleep(0.05)
        else:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    """A fast shutdown: open connections are not waited for."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(60)
