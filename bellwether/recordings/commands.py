"""Commands that record, import and list recordings."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellwether.console import AS_JSON, console, emit
from bellwether.errors import ConfigError
from bellwether.settings import World, settings
from bellwether.venues.kalshi.stream.protocol import CHANNELS, USUAL

if TYPE_CHECKING:
    from bellwether.recordings.record import Plan, Progress
    from bellwether.recordings.recording import Recording
    from bellwether.worlds import Addresses


@click.command()
@click.argument("events", nargs=-1, required=True, metavar="EVENT...")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="End after so many minutes, at the latest.")
@click.option("--name", help="Name of the recording; made of the events when left out. One that was broken off is continued.")
@click.option("--rest", is_flag=True, help="Poll over REST instead of listening: needs no key, sees less.")
@click.option(
    "--interval", default=5.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Seconds between rounds of polling."
)
@click.option(
    "--channel", "channels", multiple=True, type=click.Choice(CHANNELS), help=f"Channels to listen to; {', '.join(USUAL)} when left out."
)
def record(
    events: tuple[str, ...], *, minutes: float | None, name: str | None, rest: bool, interval: float, channels: tuple[str, ...]
) -> None:
    """Record every message about the markets of EVENTs until they close, the minutes are over, or Ctrl-C.

    Messages are appended to files as they come: whatever ends the recorder, what came is kept.
    """
    from bellwether.recordings.record import Plan
    from bellwether.venues.http.client import RateLimit
    from bellwether.worlds import addresses

    config = settings()
    limits = RateLimit(tokens_per_second=config.kalshi_tokens_per_second)
    plan = Plan(events, minutes, channels or USUAL, rest, interval, limits)
    with addresses(config, running=True) as venue:
        if not rest:
            venue.credentials()  # what is wrong with the key is said before the venue is asked
        _require_answer(venue, config.world)
        done = _record(venue, plan, config.recordings_path, name)
    _say(f"{done.name}: {done.done['reason'] if done.done else done.status}, {_counted(done)}")


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--rows", default=30, show_default=True, type=click.IntRange(1), help="Most rows to show.")
@AS_JSON
def events(words: tuple[str, ...], *, rows: int, as_json: bool) -> None:
    """List Kalshi's open events, which `record` takes, the most traded first; with WORDs those that have all of them in ticker, title or category."""
    from dataclasses import asdict

    import polars as pl

    from bellwether.console import grid
    from bellwether.progress import shown
    from bellwether.recordings.open_events import open_events
    from bellwether.venues.http.client import RateLimit
    from bellwether.worlds import addresses

    config = settings()
    limits = RateLimit(tokens_per_second=config.kalshi_tokens_per_second)
    with shown() as progress, addresses(config, served=False) as venue:
        progress.say("listing Kalshi's open events")
        _require_answer(venue, config.world)
        found = [asdict(one) for one in asyncio.run(open_events(venue, config.now(), words, limits=limits))]
    if as_json:
        emit(found)
    elif not found:
        _say(f"No open event has {' and '.join(map(repr, words))}; `bellwether events` lists all." if words else "No event is open now.")
    else:
        frame = pl.DataFrame(found).select(
            "event", "title", "markets", pl.col("contracts").cast(pl.Int64()), closes=pl.col("closes_at").dt.date()
        )
        console().print(grid(frame, most=rows))
        _say(f"`bellwether record {found[0]['event']}` records it until its markets close.")


def _require_answer(venue: Addresses, world: World) -> None:
    """Raise `ConfigError` where the live venue does not answer: a person without a network would wait for all retries of a call."""
    from bellwether.connections import try_kalshi

    if world is World.LIVE and (found := asyncio.run(try_kalshi(venue.kalshi))).is_bad:
        raise ConfigError(f"{found.name}: {found.found}; {found.advice}")


def _record(venue: Addresses, plan: Plan, root: Path, name: str | None) -> Recording:
    """Record, ending cleanly at Ctrl-C and when the process is asked to stop."""
    from bellwether.recordings.catalogue import find_recording
    from bellwether.recordings.record import name_of
    from bellwether.recordings.record import record as listen

    async def run() -> Recording:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await listen(venue, plan, root, name=name, tell=_show)

    try:
        return asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return find_recording(root, name_of(plan.events) if name is None else name)


def _show(progress: Progress) -> None:
    minutes, seconds = divmod(int(progress.seconds), 60)
    _say(
        f"{minutes}:{seconds:02d}  {progress.frames:,} frames, {progress.bytes / 1e6:.1f} MB, {progress.gaps} gaps,"
        f" connection {progress.connections}, {progress.open_markets} markets open"
    )


def _say(text: str) -> None:
    console().print(text, markup=False, soft_wrap=True)


def _counted(recording: Recording) -> str:
    from bellwether.recordings.gaps import keep_gap_summary

    found = keep_gap_summary(recording)
    missing = "holes expected" if found["partial"] else f"{found['lost']} lost"
    return f"{found['frames']:,} frames, {missing}"


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def recordings(context: click.Context, as_json: bool) -> None:
    """List the recordings, with what is missing in each, or import one."""
    if context.invoked_subcommand is not None:
        return
    from bellwether.recordings.catalogue import list_recordings

    root = settings().recordings_path
    rows = [_row(recording) for recording in list_recordings(root)]
    if as_json:
        emit(rows)
    elif rows:
        console().print(_grid(rows))
    else:
        _say(f"There is no recording below {root}; `bellwether record EVENT` makes one.")


def _row(recording: Recording) -> dict[str, Any]:
    from bellwether.recordings.gaps import gap_summary

    about = recording.about
    size = sum(path.stat().st_size for path in recording.segments)
    known = {"source": about.source, "started_at": about.started_at, "markets": len(about.tickers), "bytes": size}
    return {"recording": recording.name, "status": str(recording.status), **known, **gap_summary(recording)}


def _grid(rows: list[dict[str, Any]]) -> Any:
    import polars as pl

    from bellwether.console import grid

    shown = [
        {
            "recording": row["recording"],
            "status": row["status"],
            "markets": row["markets"],
            "frames": row["frames"],
            "MB": round(row["bytes"] / 1e6, 1),
            "connections": row["connections"],
            "lost": "expected" if row["partial"] else str(row["lost"]),
            "book outages": row["book_outages"],
        }
        for row in rows
    ]
    return grid(pl.DataFrame(shown), most=len(shown))


@recordings.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="Name of the recording; the capture's own when left out.")
def import_(path: Path, name: str | None) -> None:
    """Make recordings of the captures in PATH, a file or a folder: lines of messages, wrapped events, a list of frames or of order events."""
    from bellwether.recordings.importing import import_captures

    for recording in import_captures(settings().recordings_path, path, name=name):
        _say(f"{recording.name}: {_counted(recording)}, {len(recording.about.tickers)} markets")


@recordings.command()
@click.argument("events", nargs=-1, metavar="[EVENT]...")
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(max=8784), help="Hours before the last close.")
def generate(events: tuple[str, ...], *, hours: float) -> None:
    """Make recordings of EVENTs of the sandbox that are over, without waiting for them; of a few recent ones when none is named."""
    from bellwether.recordings.generating import generate_recordings
    from bellwether.sandbox import GeneratedWorld

    config = settings()
    if config.world is not World.SANDBOX:
        raise ConfigError(
            f"generating a recording: BELLWETHER_WORLD is {config.world}; only the sandbox knows its past. Use `bellwether record`"
        )
    world = GeneratedWorld(config.sandbox_seed)
    for recording in generate_recordings(config.recordings_path, world, events, hours=hours, now=config.now()):
        _say(f"{recording.name}: {_counted(recording)}, {len(recording.about.tickers)} markets")
