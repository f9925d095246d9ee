"""Sweeps on a Dask cluster. The size of new batches follows the duration of finished batches; source files of agents are sent to the workers."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.replay.batches import Batch, BatchResult, Candidate, SweepPlan, build_worker_error, run_batch
from bellwether.replay.engine.codes import ENGINE_VERSION
from bellwether.settings import settings

if TYPE_CHECKING:
    from dask.typing import Key
    from distributed import Client, Future

#: Target wall time of a batch: long enough for little overhead, short enough that losing a worker costs little.
_SECONDS = 2.0
#: Batches in progress or queued for each thread of the cluster.
_QUEUED = 2
_CONNECT_SECONDS = 10
#: Scheduler's metadata with the task that each worker started last, by its address.
_RUNNING = "bellwether-batch"
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[^/\s]+:\d+/?")


def connect(address: str) -> Client:
    """Connect to the scheduler at `address`, such as `tcp://scheduler:8786`. Raises `ConfigError` if it does not answer."""
    if not _ADDRESS.fullmatch(address):
        raise ConfigError(f"connecting to Dask at {address!r}: not an address; use one such as tcp://scheduler:8786")
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError("running a sweep on Dask needs the extra `dask`; install it: pip install 'bellwether[dask]'") from None
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"connecting to Dask at {address}: {error}; start `dask scheduler`, or correct the address") from None


def run_on_dask(plan: SweepPlan, client: Client, length: int | None = None) -> Iterator[BatchResult]:
    """Run all runs of a plan on a cluster, and yield the results of batches as they finish. length: runs per batch. Default: about 2
    seconds of work.

    Workers may join and leave at any time; Dask repeats the batches of a lost one. Raises `BellwetherError` for a batch that ends every
    worker that runs it, and `ConfigError` for workers with another version of the engine.
    """
    from distributed import as_completed

    files = _agent_files(plan.candidates)
    batches: dict[Key, Batch] = {}
    started, size = 0, length or 1
    finished = as_completed(loop=client.loop)
    try:
        while started < len(plan) or finished.count():
            queue = _QUEUED * max(1, sum(client.nthreads().values()))
            while started < len(plan) and finished.count() < queue:
                batch = plan.batch(started, size)
                future = client.submit(_run, batch, files, ENGINE_VERSION, pure=False)
                batches[future.key] = batch
                finished.add(future)
                started += len(batch.runs)
            future = next(finished)
            result = _read_result(future, client, batches)
            del batches[future.key]
            size = length or max(1, math.ceil(_SECONDS * len(result.rows) / max(result.seconds, 1e-6)))
            yield result
    finally:
        client.cancel(list(finished.futures))


def _read_result(future: Future, client: Client, batches: Mapping[Key, Batch]) -> BatchResult:
    from distributed import KilledWorker

    try:
        result: BatchResult = future.result()
    except KilledWorker as error:
        # This batch may only have been queued on a worker that another batch ended.
        running = client.get_metadata([_RUNNING, error.last_worker.address], default=future.key)
        raise build_worker_error([batches.get(running, batches[future.key])], " on Dask") from None
    finally:
        future.release()
    return result


def _agent_files(candidates: Sequence[Candidate]) -> dict[str, bytes]:
    """Read the source files of agents that are defined in files. Returns the contents by path."""
    paths = {candidate.agent.rpartition(":")[0] for candidate in candidates}
    return {path: Path(path).read_bytes() for path in sorted(paths) if path.endswith(".py")}


def _run(batch: Batch, files: Mapping[str, bytes], engine: int) -> BatchResult:
    """Run a batch in a Dask worker, which keeps tapes and agents' source files in its own folders. Raises `ConfigError` if the worker's
    engine version is not `engine`.
    """
    from distributed import get_client, get_worker

    if engine != ENGINE_VERSION:
        raise ConfigError(
            f"running a sweep on Dask: a worker has engine version {ENGINE_VERSION}, not {engine}; install one version everywhere"
        )
    worker = get_worker()
    get_client().set_metadata([_RUNNING, worker.address], worker.get_current_task())
    copies = {path: _copy_source(path, source) for path, source in files.items()}
    runs = [(source, _relocate(candidate, copies)) for source, candidate in batch.runs]
    return run_batch(replace(batch, runs=runs, cache=batch.cache and settings().tapes_path))


def _copy_source(path: str, source: bytes) -> Path:
    """Copy a source file into the worker's folder, and return its path. The path contains a digest, so that changed source is reloaded."""
    from distributed import get_worker

    copy = Path(get_worker().local_directory) / "agents" / hashlib.sha256(source).hexdigest()[:16] / Path(path).name
    if not copy.is_file():
        with atomic_file(copy) as draft:
            draft.write_bytes(source)
    return copy


def _relocate(candidate: Candidate, copies: Mapping[str, Path]) -> Candidate:
    """Return the candidate with its agent in the worker's copy of the source file. copies: copy by original path."""
    path, _, name = candidate.agent.rpartition(":")
    return replace(candidate, agent=f"{copies[path]}:{name}") if path in copies else candidate
