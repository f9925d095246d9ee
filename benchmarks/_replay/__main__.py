"""Compare the replay engine with its peers (other engines) in one run: interleaved, by CPU time, as the median of the rounds' ratios.

    python -m benchmarks._replay [--rounds 5] [--only hftbacktest nautilus_trader …] [--write]

The table goes to standard output, every number to `.bench/replay-speed.json`, and with --write the table into benchmarks/replay-speed.md. The exit code is 1
when a target is missed or something could not be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bellwether.formatting import markdown_table
from benchmarks._replay import processes, tapes
from benchmarks._replay.environments import CACHE, PEERS, ROOT, Environment, environment, worker_of
from benchmarks._replay.market import DAY, START
from benchmarks._replay.processes import spread
from benchmarks._replay.protocol import Worker
from benchmarks._replay.workloads import DATA_LATENCY, LIMIT, NAUTILUS_SHARE, ORDER_LATENCY, SIZE, Row, Task, rows, tasks

PAGE = ROOT / "benchmarks" / "replay-speed.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


@dataclass
class Line:
    """Measured line of the table. bound: `>=` or `<=` and the target; empty without a target. reason: why nothing was measured."""

    title: str
    tape: str
    median: float | None = None
    low: float | None = None
    high: float | None = None
    bound: str = ""
    detail: str = ""
    reason: str = ""
    unit: str = "x"

    @property
    def missed(self) -> bool:
        if self.median is None or not self.bound:
            return False
        sign, target = self.bound.split()
        return self.median < float(target) if sign == ">=" else self.median > float(target)


@dataclass
class Run:
    """Measurements of one run of the comparison, with its machine."""

    at: str
    machine: str
    load: list[tuple[float, float, float]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    tapes: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)


def options(words: Sequence[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks._replay", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of every measurement")
    parser.add_argument("--only", nargs="*", choices=[*PEERS, *PARTS], help="peers and parts to measure")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/replay-speed.md")
    return parser.parse_args(words)


def main() -> int:
    """Run the comparison. Returns the exit code: 1 if a target is missed or something could not be measured."""
    given = options(sys.argv[1:])
    chosen = given.only or [*PEERS, *PARTS]
    CACHE.mkdir(exist_ok=True)
    run = Run(datetime.now(UTC).isoformat(timespec="seconds"), _machine())
    parts = {name: part for name, part in PARTS.items() if name in chosen}
    if peers := [peer for peer in PEERS if peer in chosen]:
        parts = {"engines": partial(engines, peers=peers), **parts}
    for name, part in parts.items():
        run.load.append(os.getloadavg())
        try:
            part(run, given.rounds)
        except RuntimeError as error:
            run.lines.append(Line(name, "", bound="", reason=str(error)))
    run.load.append(os.getloadavg())
    (CACHE / "replay-speed.json").write_text(json.dumps(asdict(run), indent=1) + "\n")
    text = table(run)
    print(text)
    if given.write:
        _write(text)
    return 1 if any(line.missed or line.reason for line in run.lines) else 0


def engines(run: Run, rounds: int, peers: Collection[str]) -> None:
    """Measure this engine and the given peers on every tape (episode in integers), and add the lines to `run`."""
    environments = {peer: environment(peer) for peer in peers}
    run.versions |= {name: found.version for name, found in environments.items() if found.python}
    for tape in tapes.names():
        print(f"replaying {tape}", file=sys.stderr)
        if tape != "synthetic":
            tapes.build(tape)
        _tape(run, tape, environments, rounds)


def _tape(run: Run, tape: str, environments: dict[str, Environment], rounds: int) -> None:
    lines = rows(tape, environments)
    workers, reasons = _workers(run, tape, lines, environments)
    cpu: dict[str, list[float]] = {}
    sizes: dict[str, str] = {}
    try:
        for _ in range(rounds):
            for task in tasks(lines):
                if task.engine not in workers or task.key in reasons:
                    continue
                try:
                    answer = _ask(workers[task.engine], task, tape)
                except RuntimeError as error:
                    reasons[task.key] = str(error)
                    continue
                cpu.setdefault(task.key, []).append(answer["cpu"] / answer["events"])
                sizes[task.key] = f"{answer['steps']:,} steps, {answer['orders']:,} orders, {answer['fills']:,} fills"
            touched = workers["ours"].ask("touch", tape=tape)
            cpu.setdefault("touch", []).append(touched["cpu"] / touched["events"])
        for row in lines:
            run.lines.append(_line(row, tape, cpu, sizes, reasons))
        distance = [ours / touch for ours, touch in zip(cpu["ours noop 300 s"], cpu["touch"], strict=True)]
        run.lines.append(Line("CPU of the no-op run, of a pass that touches every event once", tape, *spread(distance), bound="<= 2"))
        if tape == "synthetic":
            _threads(run, workers["ours"], tape, rounds)
    finally:
        for worker in workers.values():
            worker.close()


def _workers(run: Run, tape: str, lines: Sequence[Row], environments: dict[str, Environment]) -> tuple[dict[str, Worker], dict[str, str]]:
    ours = Worker([sys.executable, "-m", "benchmarks._replay.ours"], CACHE / "ours.log", ROOT)
    workers, reasons = {"ours": ours}, {}
    loaded = ours.ask("load", tape=tape)
    run.tapes[tape] = loaded
    measured = tapes.prepared(tape).tape
    for name in {row.peer.engine for row in lines}:
        found = environments[name]
        if found.python is None:
            reasons[name] = found.reason
            continue
        worker = Worker([found.python, worker_of(name)], CACHE / f"{name}.log")
        path, options = CACHE / f"{tape}-{name}.npz", dict[str, int]()
        if name == "hftbacktest":
            tapes.records(measured, path, DATA_LATENCY)
        else:
            tapes.columns(measured, path)
            options = {"data_latency": DATA_LATENCY, "until": START + DAY // NAUTILUS_SHARE}
        try:
            worker.ask("load", path=str(path), **options)
            workers[name] = worker
        except RuntimeError as error:
            reasons[name] = str(error)
            worker.close()
    return workers, reasons


def _ask(worker: Worker, task: Task, tape: str) -> dict[str, Any]:
    arguments = {"agent": task.agent, "cadence": task.seconds * 10**9, "size": SIZE, "limit": LIMIT, "order_latency": ORDER_LATENCY}
    if task.engine == "ours":
        arguments |= {"tape": tape, "data_latency": DATA_LATENCY}
    return worker.ask("run", **arguments)


def _line(row: Row, tape: str, cpu: dict[str, list[float]], sizes: dict[str, str], reasons: dict[str, str]) -> Line:
    bound = "" if row.goal is None else f">= {row.goal:g}"
    for task in (row.ours, row.peer):
        if task.key not in cpu:
            return Line(row.title, tape, bound=bound, reason=reasons.get(task.key) or reasons.get(task.engine, "not measured"))
    ours, theirs = cpu[row.ours.key], cpu[row.peer.key]
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    fast = [f"{1 / spread(side)[0] / 1e6:.3g} M events/s" for side in (ours, theirs)]
    detail = f"{fast[0]} ({sizes[row.ours.key]}) against {fast[1]} ({sizes[row.peer.key]})"
    return Line(row.title, tape, *spread(ratios), bound=bound, detail=detail)


def _threads(run: Run, worker: Worker, tape: str, rounds: int) -> None:
    arguments = {"tape": tape, "runs": 16, "cadence": 60 * 10**9}
    ratios = [
        worker.ask("threads", threads=1, **arguments)["wall"] / worker.ask("threads", threads=2, **arguments)["wall"] for _ in range(rounds)
    ]
    detail = "16 compiled backtests, wall time"
    run.lines.append(Line("two threads of one process, one", tape, *spread(ratios), bound=">= 1.7", detail=detail))


def original(run: Run, rounds: int) -> None:
    """Measure time and memory from raw files to a result, relative to the design of PredictionMarketBench ("the original"). Adds the lines to
    `run`.
    """
    print("replaying raw files of the original's format", file=sys.stderr)
    found = processes.original(rounds)
    ours, theirs = found["ours"], found["theirs"]
    fast = spread([each["cpu"] for each in ours])[0]
    detail = f"{fast:.2f} s against {theirs['cpu']:.1f} s, which is measured once"
    run.lines.append(
        Line("raw episode to answer, the original's design", "original's format", *spread(found["time"]), bound=">= 50", detail=detail)
    )
    peak = spread([each["peak_mb"] for each in ours])[0]
    detail = f"{peak:,.0f} MB against {theirs['peak_mb']:,.0f} MB"
    run.lines.append(Line("peak memory of that, the original's design", "original's format", *spread(found["memory"]), ">= 12", detail))


def start(run: Run, rounds: int) -> None:
    """Measure the CPU time of a new process until its first result. Adds a line to `run`."""
    print("starting fresh processes", file=sys.stderr)
    beyond = processes.start_up(rounds)["beyond"]
    title = "CPU of a fresh process to its first result, beyond importing numpy and pyarrow"
    run.lines.append(Line(title, "2 hours", *spread(beyond), bound="<= 1.5", unit=" s"))


def compilation(run: Run, rounds: int) -> None:
    """Measure how long the first process after an installation compiles. Adds a line to `run`."""
    print("compiling the engine", file=sys.stderr)
    seconds = processes.compilation()
    run.lines.append(Line("CPU of the first compilation", "2 hours", seconds, seconds, seconds, bound="<= 15", unit=" s"))


def sweep(run: Run, rounds: int) -> None:
    """Measure a thousand backtests in two worker processes, relative to one process. Adds a line to `run`."""
    print("running 1,000 backtests", file=sys.stderr)
    found = processes.sweep(rounds)
    detail = f"{found['together']:.1f} s against {found['alone']:.1f} s"
    run.lines.append(Line("CPU of 1,000 backtests with two jobs, one", "10 x 24 hours", *spread(found["ratio"]), "<= 1.15", detail))


PARTS: dict[str, Callable[[Run, int], None]] = {
    "original": original,
    "start": start,
    "compilation": compilation,
    "sweep": sweep,
}


def table(run: Run) -> str:
    """Render all lines of a run as a Markdown table."""
    head = [
        f"Measured {run.at} on {run.machine}. Load average "
        + ", ".join(f"{one:.1f}" for one, _, _ in run.load)
        + " during the run. "
        + ", ".join(f"{name} {version}" for name, version in run.versions.items())
        + ".",
        "",
        *(
            f"- tape `{name}`: {about['events']:,} events, {about['tickers']} tickers, `{about['digest'][:16]}`"
            for name, about in run.tapes.items()
        ),
        "",
    ]
    return "\n".join(
        [*head, *markdown_table(["measured, against", "tape", "goal", "measured", "range", "reached", ""], map(_cells, run.lines)), ""]
    )


def _cells(line: Line) -> list[str]:
    goal = line.bound.replace(">=", "at least").replace("<=", "at most") + (line.unit if line.bound else "")
    if line.median is None:
        return [line.title, line.tape, goal, "not measured", "", "", line.reason]
    middle, low, high = (f"{value:.3g}{line.unit}" for value in (line.median, line.low, line.high))
    reached = ("no" if line.missed else "yes") if goal else ""
    return [line.title, line.tape, goal, middle, "" if low == high else f"{low} to {high}", reached, line.detail]


def _write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    draft = PAGE.with_suffix(".draft")
    draft.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")
    draft.rename(PAGE)


def _machine() -> str:
    names = [line.split(":", 1)[1].strip() for line in _cpu_info() if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, commit {_commit()}"


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
