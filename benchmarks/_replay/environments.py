"""Virtual environments of the peers (engines that are compared), one for each peer, created once below `.bench/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".bench"


#: Engines to compare with, by name, and the minor version of Python 3 that is preferred for them: nautilus_trader supports the newest ones alone.
PEERS = {"hftbacktest": 11, "nautilus_trader": 13}


@dataclass(frozen=True)
class Environment:
    """Python interpreter and version of a peer, or the reason why the peer cannot be measured."""

    python: Path | None
    version: str = ""
    reason: str = ""


def worker_of(peer: str) -> Path:
    """Return the path of the program that runs in a peer's environment and measures the peer."""
    return Path(__file__).with_name(f"peer_{peer}.py")


def environment(peer: str) -> Environment:
    """Create or update the environment of a peer with the newest release. Without a network, keep the installed release."""
    folder = CACHE / peer
    python, pip = folder / "bin" / "python", ["-m", "pip", "--disable-pip-version-check", "-q", "install", "--upgrade", peer]
    if not python.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if failure := _run([_interpreter(PEERS[peer]), "-m", "venv", str(folder)]):
            return Environment(None, reason=failure)
    print(f"installing the newest {peer} into {folder.relative_to(ROOT)}", file=sys.stderr)
    failure = _run([str(python), *pip])
    version = f"from importlib.metadata import version; print(version({peer!r}))"
    found = subprocess.run([str(python), "-c", version], capture_output=True, text=True, check=False)
    if found.returncode:
        return Environment(None, reason=failure or "it is not installed")
    return Environment(python, found.stdout.strip())


def _interpreter(preferred: int) -> str:
    """Return the path of a Python interpreter of the preferred minor version, else of the one that runs this."""
    versions = {_version(path): path for path in _interpreters()}
    return versions.get((3, preferred)) or sys.executable


def _interpreters() -> Iterator[str]:
    yield sys.executable
    for minor in (12, 13):
        on_path = shutil.which(f"python3.{minor}")
        if on_path:
            yield on_path
        yield from map(str, sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")))


def _version(python: str) -> tuple[int, ...]:
    """Return the version of a Python interpreter; (0, 0) if the interpreter does not start."""
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(map(int, found.stdout.split())) if found.returncode == 0 else (0, 0)


def _run(command: list[str]) -> str | None:
    """Run a command. Returns None if it succeeded, else the end of its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
