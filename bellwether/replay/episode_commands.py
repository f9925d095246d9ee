"""`bellwether episode`: make episodes of recordings, bring in others' ones, list and check them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bellwether.console import AS_JSON, console, emit
from bellwether.errors import ConfigError, SchemaError
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.recordings.recording import Recording
    from bellwether.replay.building import Known
    from bellwether.replay.episode import Episode, Report
_PRICES = ("auto", "taker", "yes")


@click.group()
def episode() -> None:
    """Make, import, list and check episodes: recorded books, trades and outcomes of one event, ready to be replayed."""


@episode.command()
@click.argument("recording")
@click.option(
    "--result",
    "results",
    multiple=True,
    metavar="TICKER=RESULT",
    help="How a market was settled: yes, no, void, or what YES paid in dollars; wins over everything else.",
)
@click.option("--infer-results", is_flag=True, help="Take a last trade at 0.99 or above, 0.01 or below, for the result nobody states.")
@AS_JSON
def build(recording: str, *, results: tuple[str, ...], infer_results: bool, as_json: bool) -> None:
    """Make an episode of each event of RECORDING, with what the lake knows of its markets."""
    from bellwether.recordings.catalogue import find_recording
    from bellwether.replay.building import Outcomes, build_recording, episode_ids, stated_results

    found = find_recording(settings().recordings_path, recording)
    stated = stated_results(results)
    if unknown := sorted(set(stated) - set(found.about.tickers)):
        raise ConfigError(
            f"building episodes of {recording}: it has no market {', '.join(unknown)}; it has {', '.join(found.about.tickers)}"
        )
    drafts = build_recording(found, known=_known(found), outcomes=Outcomes(stated, infer_results))
    made = [_write(draft) for draft in drafts]
    for missing in sorted(set(episode_ids(found.name, found.about).values()) - {one.id for one in made}):
        click.echo(f"{missing}: no book of it was recorded", err=True)
    if not made:
        raise ConfigError(f"building episodes of {recording}: no book of any of its markets was recorded")
    _show(made, as_json=as_json)


def _known(recording: Recording) -> Known:
    from bellwether.lake import Lake
    from bellwether.replay.building import known_in_lake

    return known_in_lake(Lake(settings().lake_uri), recording.about.tickers)


def _write(draft: Any) -> Episode:
    from bellwether.replay.episode import write

    return write(settings().episodes_path / draft.metadata.episode_id, draft)


@episode.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", help="Id of the episode; its own when left out.")
@click.option(
    "--trade-price",
    type=click.Choice(_PRICES),
    default="auto",
    show_default=True,
    help="What the trades' prices are of: the side that the taker bought, YES, or whichever fits the books.",
)
@AS_JSON
def import_(folder: Path, *, name: str | None, trade_price: str, as_json: bool) -> None:
    """Bring in the episode in FOLDER, of this format or of PredictionMarketBench's (full books, whole cents)."""
    from dataclasses import replace

    from bellwether.recordings.recording import check_name
    from bellwether.replay.episode import draft_of, load_original

    draft = draft_of(load_original(folder, trade_price))
    chosen = check_name(name or draft.metadata.episode_id, "the episode (--name)")
    _show([_write(replace(draft, metadata=replace(draft.metadata, episode_id=chosen)))], as_json=as_json)


@episode.command("list")
@AS_JSON
def list_(*, as_json: bool) -> None:
    """List the episodes that there are."""
    root = settings().episodes_path
    rows = [_row(folder) for folder in _folders(root)]
    if as_json:
        emit(rows)
    elif rows:
        _print(rows)
    else:
        click.echo(f"There is no episode below {root}; `bellwether episode build RECORDING` makes one.")


def _print(rows: list[dict[str, Any]]) -> None:
    import polars as pl

    from bellwether.console import grid

    shown = [name for name in _COLUMNS if name not in ("event", "problem")]
    if usable := [row for row in rows if row["problem"] is None]:
        console().print(grid(pl.DataFrame(usable, infer_schema_length=None).select(shown), most=len(usable)))
    for row in rows:
        if row["problem"] is not None:
            console().print(f"{row['episode']}: {row['problem']}", markup=False, soft_wrap=True)


def _folders(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/metadata.json") if not path.parent.name.startswith(".")) if root.is_dir() else []


def _row(folder: Path) -> dict[str, Any]:
    """An episode as a row of the listing; one that is refused says why."""
    from bellwether.replay.episode import load

    try:
        return _described(load(folder, cache=settings().tapes_path))
    except SchemaError as error:
        return {**dict.fromkeys(_COLUMNS), "episode": folder.name, "problem": str(error)}


_COLUMNS = ("episode", "event", "markets", "start", "hours", "settled", "exogenous", "digest", "problem")


def _described(found: Episode) -> dict[str, Any]:
    from bellwether.replay.episode.metadata import iso

    about = found.metadata
    return {
        "episode": found.id,
        "event": about.event_slug,
        "markets": len(found.tickers),
        "start": (iso(about.start) or "")[:19],
        "hours": round((about.end - about.start) / 3.6e12, 2),
        "settled": sum(settlement.is_known for settlement in found.settlements),
        "exogenous": ", ".join(series.name for series in about.exogenous),
        "digest": found.digest[:12],
        "problem": None,
    }


def _show(made: list[Episode], *, as_json: bool) -> None:
    if as_json:
        emit([{**_described(one), "digest": one.digest, "folder": str(one.folder)} for one in made])
        return
    for one in made:
        row = _described(one)
        text = f"{one.id}: {row['markets']} markets, {row['hours']} h, {row['settled']} settled, digest {row['digest']}"
        console().print(text, markup=False, soft_wrap=True)


@episode.command()
@click.argument("which", metavar="PATH|ID")
@click.option("--trade-price", type=click.Choice(_PRICES), default="auto", show_default=True, help="As for import.")
@AS_JSON
@click.pass_context
def validate(context: click.Context, which: str, *, trade_price: str, as_json: bool) -> None:
    """Check an episode, by its folder or its id, and say all that is found. Fails when it would be refused."""
    from bellwether.replay.episode import validate as check

    folder = Path(which) if Path(which).is_dir() else settings().episodes_path / which
    if not folder.is_dir():
        raise ConfigError(
            f"checking the episode {which!r}: there is no such folder, nor {folder}; `bellwether episode list` shows what there is"
        )
    report = check(folder, trade_price=trade_price)
    if as_json:
        emit(_document(report))
    else:
        console().print(report.text(), markup=False, soft_wrap=True)
    if not report.is_valid:
        context.exit(1)


def _document(report: Report) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "folder": str(report.folder),
        "valid": report.is_valid,
        "digest": report.digest,
        "counts": dict(report.counts),
        "findings": [asdict(finding) for finding in report.findings],
    }
