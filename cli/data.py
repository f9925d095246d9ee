"""Commands that pull, record, publish and query data."""

from __future__ import annotations

import asyncio
import re
import signal
from bisect import bisect
from contextlib import redirect_stdout
from dataclasses import asdict
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click
import polars as pl

from bellwether.console import console, emit, grid, shown
from bellwether.errors import BellwetherError, ConfigError, suggestion
from bellwether.formatting import visible
from bellwether.lake import Lake
from bellwether.places import failures, is_stored
from bellwether.recordings.gaps import build_gap_report
from bellwether.recordings.recording import find_recording, list_recordings, store_finished
from bellwether.settings import Settings, World, settings
from bellwether.worlds import addresses
from cli.options import AS_JSON, DAY

if TYPE_CHECKING:
    from bellwether.recordings.recording import Recording
    from bellwether.recordings.recording_run import RecordingPlan, RecordingProgress
    from bellwether.venues.http.client import RateLimit
    from bellwether.worlds import Addresses


#: Days that `pull` pulls unless days are named.
_LAST_DAYS = 3


@click.command()
@click.argument("first", type=DAY, required=False, metavar="[FIRST]")
@click.argument("last", type=DAY, required=False, metavar="[LAST]")
@click.option("--refresh", is_flag=True, help="Request everything again, even for final days: finds corrected outcomes.")
@click.option("--archive", is_flag=True, help="Scan the venue's archive first: needed for days more than about 3 months ago.")
def pull(first: datetime | None, last: datetime | None, *, refresh: bool, archive: bool) -> None:
    """Pull, clean and check the markets that closed on the UTC days FIRST to LAST (YYYY-MM-DD); the last 3 days without FIRST.

    An interrupted pull is continued. Days that were final are skipped; of the others only what can have changed is requested.
    """
    if first is not None:
        begin, end = first.date(), (last or first).date()
        if end < begin:
            raise click.BadParameter(f"LAST ({end}) is before FIRST ({begin})")
        _require_days(begin, end)

    from assets.raw import runs
    from assets.summary.runs import publish
    from orchestration.run_session import runner

    if first is None:
        begin, end = runs.last_days(_LAST_DAYS)
    failed: runs.DaysFailed | None = None
    with runner() as work:
        try:
            runs.pull(work, begin, end, with_archive=archive, refresh=refresh)
        except runs.DaysFailed as error:
            failed = error
        publish(work)
        rejects = runs.count_rejects(work.lake, begin, end)
    console().print(f"{work.stats.runs} runs, {work.stats.fresh} partitions up to date, {rejects['objects'].sum()} rejects")
    for line in runs.format_rejects(rejects):
        console().print(f"  {line}", markup=False, soft_wrap=True)
    if failed is not None:
        raise failed
    runs.require_rows(work.lake, rejects)


def _require_days(first: date, last: date) -> None:
    """Raise `click.BadParameter` if this world does not contain one of the days from `first` to `last`."""
    begin, end = settings().first_day.date(), settings().now().date() - timedelta(days=1)
    for day in (first, last):
        if not begin <= day <= end:
            earlier = "; BELLWETHER_FIRST_DAY sets the first" if day < begin else ""
            raise click.BadParameter(f"{day} is not a complete day of the world {settings().world}, which has {begin} to {end}{earlier}")


def _rate_limit(config: Settings) -> RateLimit:
    """Return the rate limit of requests to Kalshi, which is shared with running pulls in the live world."""
    from bellwether.journal.journal import Journal
    from bellwether.venues.http.client import RateLimit

    shared = Journal.of(config).limits if config.world is World.LIVE else None
    return RateLimit(tokens_per_second=config.kalshi_tokens_per_second, shared=shared)


@click.command()
@click.argument("events", nargs=-1, metavar="[EVENT]...")
@click.option("--find", "words", multiple=True, metavar="WORD", help="List only open events with this word; repeatable.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Maximum duration in minutes.")
@click.option("--name", help="Name of the recording; an interrupted one is continued.  [default: the events]")
@click.option("--rest", is_flag=True, help="Poll REST every 5 seconds instead of the WebSocket: needs no key, records less.")
def record(
    events: tuple[str, ...],
    *,
    words: tuple[str, ...],
    minutes: float | None,
    name: str | None,
    rest: bool,
) -> None:
    """Record every message about the markets of EVENTs until they close, --minutes are over, or Ctrl-C.

    Messages are written to files on arrival and survive any end of the recorder. Without EVENT, Kalshi's open events are listed, the most
    traded first; --find filters them by ticker, title and category.
    """
    from bellwether.recordings.recording_run import RecordingPlan, default_name

    if not events:
        _list_events(words)
        return
    if words:
        raise click.UsageError("--find lists events; leave it out to record.")
    config = settings()
    limits = _rate_limit(config)
    plan = RecordingPlan(events, minutes, rest=rest, limits=limits)
    with addresses(config, running=True) as venue:
        if not rest:
            venue.credentials()  # a bad key fails before the first request
        _require_answer(venue, config.world)
        try:
            _require_new(config.recordings_path, name or default_name(plan.events))
        except failures() as error:
            _say(f"{config.recordings_path} does not answer ({error}); the recording stays on this machine")
        recording = _record(venue, plan, config.recorder_path, name)
    _say(f"{recording.name}: {recording.done['reason'] if recording.done else recording.status}, {build_gap_report(recording).describe()}")
    _store(config)


#: Events that are listed.
_MOST_EVENTS = 30


def _list_events(words: tuple[str, ...]) -> None:
    """Print Kalshi's open events, the most traded first. words: filter by ticker, title and category."""
    from bellwether.recordings.recording_run import list_open_events

    config = settings()
    limits = _rate_limit(config)
    with shown() as progress, addresses(config, served=False) as venue:
        progress.say("listing Kalshi's open events")
        _require_answer(venue, config.world)
        listed = [asdict(event) for event in asyncio.run(list_open_events(venue, config.now(), words, limits=limits))]
    if not listed:
        _say(f"No open event has {' and '.join(map(repr, words))}; `bellwether record` lists all." if words else "No event is open now.")
        return
    columns = ("event", "title", "markets", pl.col("contracts").cast(pl.Int64()))
    console().print(grid(pl.DataFrame(listed).select(*columns, closes=pl.col("closes_at").dt.date()), most=_MOST_EVENTS))
    _say(f"`bellwether record {listed[0]['event']}` records it until its markets close.")


def _require_answer(venue: Addresses, world: World) -> None:
    """Raise `ConfigError` if the live venue does not answer. This fails at once; a later request would fail only after all retries."""
    from bellwether.doctor.connections import try_kalshi

    if world is World.LIVE and (answer := asyncio.run(try_kalshi(venue.kalshi))).status != "ok":
        raise ConfigError(f"{answer.check}: {answer.found}; {answer.advice}")


def _require_new(root: Path, name: str) -> None:
    """Raise `ConfigError` if the object store already has a finished recording called `name`."""
    if is_stored(root) and any(recording.name == name for recording in list_recordings(root)):
        raise ConfigError(f"recording {name}: {root} has a finished recording of this name; choose another one")


def _record(venue: Addresses, plan: RecordingPlan, root: Path, name: str | None) -> Recording:
    """Record until the markets close, or until Ctrl-C or SIGTERM. Returns the recording."""
    from bellwether.recordings.recording_run import default_name
    from bellwether.recordings.recording_run import record_events as listen

    async def run() -> Recording:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await listen(venue, plan, root, name=name, tell=_print_progress)

    try:
        return asyncio.run(run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return find_recording(root, default_name(plan.events) if name is None else name)


def _print_progress(progress: RecordingProgress) -> None:
    minutes, seconds = divmod(int(progress.seconds), 60)
    _say(
        f"{minutes}:{seconds:02d}  {progress.frames:,} frames, {progress.bytes / 1e6:.1f} MB, {progress.gaps} gaps,"
        f" connection {progress.connections}, {progress.open_markets} markets open"
    )


def _say(text: str) -> None:
    console().print(text, markup=False, soft_wrap=True)


def _store(config: Settings) -> None:
    """Upload finished recordings to the object store, if one is set. Raises `BellwetherError` if that fails; the recordings stay on this machine."""
    try:
        for recording in store_finished(config.recorder_path, config.recordings_path):
            _say(f"{recording.name}: in {recording.folder}")
    except failures(BellwetherError) as error:
        raise BellwetherError(
            f"{error}. The recording is kept in {config.recorder_path}; the next `bellwether record` uploads it"
        ) from error


#: Rows of a result that are shown; --json has all.
_MOST_ROWS = 40
#: Lines of all boxes of a result that is too wide for the terminal.
_MOST_LINES = 60
#: DuckDB's statements that list tables. Its own lists lack the schemas, or are too wide for a terminal.
_SHOW_TABLES = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)


@click.command()
@click.argument("sql", required=False, metavar="[NAME|SQL|@FILE]")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="Value of $NAME in the SQL; repeatable.")
@AS_JSON
def query(sql: str | None, values: tuple[str, ...], as_json: bool) -> None:
    """Run SQL on the published warehouse, read-only. Without SQL, list the queries that have a NAME.

    `SHOW TABLES` lists the tables; `leaderboard --set release=sandbox-2026` runs a query by its NAME. Columns that do not fit the terminal
    follow below, or are only named; --json has all columns and rows, and null for NaN and infinity.
    """
    from bellwether.lake.sql import find_tables, list_queries
    from bellwether.lake.warehouse import query as run
    from cli.delays import warn_of_delays

    if sql is None:
        for name, description in list_queries().items():
            console().print(f"[bold]{name}[/bold]: {description}")
        return
    text = _read_sql(sql)
    frame = run(settings().warehouse_uri, text, _parse_values(values))
    warn_of_delays(find_tables(text), published=True)
    # A small negative number is rounded to -0.0, which depends on the order of a sum: show 0.0.
    frame = frame.with_columns(pl.col(pl.Float32, pl.Float64) + 0.0)
    if as_json:
        emit(frame.to_dicts())
    elif frame.width:
        click.echo(_draw_box(frame))


def _read_sql(sql: str) -> str:
    """Return the SQL of a named query or of `@FILE`; other text unchanged."""
    from bellwether.lake.sql import list_queries, sql_text

    if _SHOW_TABLES.fullmatch(sql):
        return sql_text("meta/show_tables")
    if re.fullmatch(r"\w+", sql):
        if sql not in (names := list_queries()):
            raise ConfigError(f"running the query {sql!r}: no query has this name; {suggestion(sql, names)}")
        return sql_text(f"analysis/{sql}")
    if not sql.startswith("@"):
        return sql
    path = Path(sql[1:])
    if not path.is_file():
        raise ConfigError(f"reading SQL: {path} is not a file")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"reading SQL: {path} is not UTF-8 text") from error


def _draw_box(frame: pl.DataFrame) -> str:
    """Draw a frame like DuckDB's command line, as wide as the terminal.

    If it is too wide, columns with the same value in all rows are stated below it, and the last columns follow in further boxes that repeat the
    first column, within `_MOST_LINES`; the others are only named. At most `_MOST_ROWS` rows are shown, half of them from the end.
    """
    from bellwether.lake.duckdb_connection import connect, identifier

    with connect() as connection:
        # A table of its own: a relation over Python objects can wait for the interpreter's lock while it is shown.
        connection.register("frame", frame.to_arrow())
        connection.execute("CREATE TABLE box AS FROM frame")

        def draw(names: list[str]) -> str:
            with redirect_stdout(StringIO()) as out:
                chosen = connection.sql("SELECT " + ", ".join(map(identifier, names)) + " FROM box")  # noqa: S608 - every name is quoted
                chosen.show(max_width=console().width, max_rows=_MOST_ROWS)
            return out.getvalue().rstrip("\n")

        def count_fitting(lead: list[str], names: list[str]) -> int:
            """Return how many of the `names` fit into a box after the columns `lead`, at least one."""
            return 1 + bisect(range(2, len(names) + 1), False, key=lambda count: _has_dots(draw([*lead, *names[:count]])))

        boxes, notes = [draw(frame.columns)], []
        if _has_dots(boxes[0]):
            same = {name: frame[name][0] for name in frame.columns if frame.height > 1 and _is_constant(frame[name])}
            names = [name for name in frame.columns if name not in same] or frame.columns
            lead, left, lines = list[str](), names, len(boxes.pop().splitlines())
            while left and lines * (len(boxes) + 1) <= _MOST_LINES:
                count = count_fitting(lead, left)
                boxes.append(draw([*lead, *left[:count]]))
                lead, left = names[:1], left[count:]
            values = [f"{name} {'NULL' if value is None else value}" for name, value in same.items()]
            notes = [f"In all rows: {', '.join(values)}"] if same else []
            notes += [f"Also: {', '.join(left)}"] if left else []
    return visible("\n".join([*boxes, *notes]), "\n")


def _has_dots(box: str) -> bool:
    """Return True if DuckDB has replaced columns in the middle of a box by dots."""
    return "│ … │" in box.split("\n", 2)[1]


def _is_constant(column: pl.Series) -> bool:
    return not column.dtype.is_nested() and column.n_unique() == 1


@click.command()
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a self-contained DuckDB file with all rows here instead.",
)
def warehouse(target: Path | None) -> None:
    """Publish the warehouse from the current state of the lake.

    Large tables are views over files of the lake: publish again after moving or copying the home.
    """
    from bellwether.lake.warehouse import publish

    lake = Lake.of(settings())
    with shown() as progress:
        progress.say(f"publishing {target or settings().warehouse_uri}")
        publication = publish(lake, target or settings().warehouse_uri, self_contained=target is not None)
    size = f"{publication.tables} tables, {publication.rows:,} rows, {publication.bytes / 1e6:.1f} MB"
    console().print(f"{publication.path}: {size}", markup=False, soft_wrap=True)
    if publication.outdated:
        console().print(f"Left out, written by an older version: {', '.join(publication.outdated)}", markup=False, soft_wrap=True)
    for name, reason in publication.damaged.items():
        click.echo(f"Left out {name}: {visible(reason)}", err=True)
    if publication.damaged:
        click.get_current_context().exit(1)


def _parse_values(values: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME=VALUE` options to a mapping from name to value."""
    for value in values:
        if not value.partition("=")[0] or "=" not in value:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="--set")
    return dict(value.split("=", 1) for value in values)
