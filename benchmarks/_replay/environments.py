"""The peers' virtual environments, each with its own pins, made once below `.bench/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".bench"


@dataclass(frozen=True)
class Peer:
    """An engine to compare with: the versions to try, newest first, and the oldest Python each needs."""

    name: str
    versions: tuple[tuple[str, tuple[int, int]], ...]

    @property
    def worker(self) -> Path:
        return Path(__file__).with_name(f"peer_{self.name}.py")


HFTBACKTEST = Peer("hftbacktest", (("2.4.4", (3, 11)),))
# From 1.222 on it needs Python 3.12.
NAUTILUS = Peer("nautilus_trader", (("1.231.0", (3, 12)), ("1.221.0", (3, 11))))


@dataclass(frozen=True)
class Environment:
    """A peer's interpreter and version, or the reason why it is missing."""

    peer: Peer
    python: Path | None
    version: str = ""
    reason: str = ""


def environment(peer: Peer) -> Environment:
    """The peer's environment, made when it is not there."""
    reasons = []
    for version, least in peer.versions:
        folder = CACHE / f"{peer.name}-{version}"
        python = folder / "bin" / "python"
        done = folder / ".installed"
        if done.exists():
            return Environment(peer, python, version)
        interpreter = _interpreter(least)
        if interpreter is None:
            reasons.append(f"{version} needs Python {least[0]}.{least[1]}, which is not installed")
            continue
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {peer.name} {version} into {folder.relative_to(ROOT)}", file=sys.stderr)
        failure = _run([interpreter, "-m", "venv", str(folder)]) or _run(
            [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", f"{peer.name}=={version}"]
        )
        if failure is None:
            done.touch()
            return Environment(peer, python, version)
        reasons.append(f"{version}: {failure}")
    return Environment(peer, None, reason="; ".join(reasons))


def _interpreter(least: tuple[int, int]) -> str | None:
    return next((path for path in _interpreters() if _version(path)[:2] >= least), None)


def _interpreters() -> Iterator[str]:
    yield sys.executable
    for minor in (12, 13):
        on_path = shutil.which(f"python3.{minor}")
        if on_path:
            yield on_path
        yield from map(str, sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")))


def _version(python: str) -> tuple[int, ...]:
    """(0, 0) for what does not start: a shim of a version that is not chosen, for example."""
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(map(int, found.stdout.split())) if found.returncode == 0 else (0, 0)


def _run(command: list[str]) -> str | None:
    """None when it worked, else its last words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
