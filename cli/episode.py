"""`bellwether episode`: list, build, import and export episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from bellwether.console import console, grid
from bellwether.errors import ConfigError
from bellwether.places import place
from bellwether.recordings.captures import import_captures
from bellwether.recordings.gaps import build_gap_report
from bellwether.recordings.recording import check_name, find_recording, list_recordings
from bellwether.replay.episode.model import COLUMNS, METADATA, build_row, list_episodes, read_json
from bellwether.settings import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bellwether.recordings.recording import Recording
    from bellwether.replay.episode.content import Content
    from bellwether.replay.episode.folder import Episode
    from bellwether.replay.episode_builder.listings import Listings


_RESULTS = click.option(
    "--result",
    "results",
    multiple=True,
    metavar="TICKER=RESULT",
    help="Settlement of a market: yes, no, void, or the dollars that YES paid; overrides other sources.",
)
_FEE = click.option("--fee", metavar="TYPE[:MULTIPLIER]", help="Fees of all markets, such as quadratic_with_maker_fees or quadratic:0.5.")


@click.group(invoke_without_command=True)
@click.pass_context
def episode(context: click.Context) -> None:
    """List the episodes (books, trades and outcomes of one event); build, import or export one."""
    if context.invoked_subcommand is not None:
        return
    root = settings().episodes_path
    if rows := list_episodes(root):
        _print_episodes(rows)
    else:
        click.echo(f"No episodes in {root}; `bellwether episode build RECORDING` creates one.")


@episode.command()
@click.argument("recording", required=False, metavar="[RECORDING|PATH]")
@click.option("--name", help="Name of the recording of the capture in PATH.  [default: its own]")
@_RESULTS
@click.option("--infer-results", is_flag=True, help="Infer missing results from a last trade at 0.99 or above, or 0.01 or below.")
@_FEE
def build(recording: str | None, *, name: str | None, results: tuple[str, ...], infer_results: bool, fee: str | None) -> None:
    """Build the episodes of a recording; list recordings.

    Without RECORDING or PATH (captures of other recorders), the recordings are listed. Each event becomes an episode, with market data from the
    lake. Captures are imported as recordings before.
    """
    from bellwether.replay.episode_builder.build import Outcomes, build_recording, episode_ids
    from bellwether.replay.episode_builder.listings import parse_results

    if recording is None:
        _list_recordings()
        return
    sources = _find_recordings(recording, name)
    tickers = [ticker for source in sources for ticker in source.about.tickers]
    stated = parse_results(results)
    if unknown := sorted(set(stated) - set(tickers)):
        raise ConfigError(f"building episodes of {recording}: it has no market {', '.join(unknown)}; it has {', '.join(tickers)}")
    known, outcomes = _load_listings(tickers, fee), Outcomes(stated, infer_results)
    episodes = [_write_episode(content) for source in sources for content in build_recording(source, known=known, outcomes=outcomes)]
    events = {event for source in sources for event in episode_ids(source.name, source.about).values()}
    for missing in sorted(events - {built.id for built in episodes}):
        click.echo(f"{missing}: no book of it was recorded", err=True)
    if not episodes:
        raise ConfigError(f"building episodes of {recording}: no book of any of its markets was recorded")
    _print_written(episodes)


def _list_recordings() -> None:
    """Print the recordings with status and size."""
    root = settings().recordings_path
    rows = [_recording_row(recording) for place in dict.fromkeys((root, settings().recorder_path)) for recording in list_recordings(place)]
    if rows:
        console().print(grid(pl.DataFrame(rows), most=len(rows)))
    else:
        console().print(f"No recordings in {root}; `bellwether record EVENT` creates one.", markup=False, soft_wrap=True)


def _recording_row(recording: Recording) -> dict[str, Any]:
    done = recording.done or {}
    return {
        "recording": recording.name,
        "status": str(recording.status),
        "markets": len(recording.about.tickers),
        "frames": done.get("frames"),
        "MB": round(recording.size / 1e6, 1),
        "connections": done.get("connections"),
    }


def _find_recordings(which: str, name: str | None) -> list[Recording]:
    """Return a recording by its name, or the recordings of the captures in a path. name: of the recording of a capture."""
    root = settings().recordings_path
    if not Path(which).exists():
        if name is not None:
            raise ConfigError(f"building episodes of {which}: there is no such file or folder, and --name is for captures; leave it out")
        return [find_recording(root, which)]
    imported = import_captures(root, Path(which), name=name)
    for recording in imported:
        text = f"{recording.name}: {build_gap_report(recording).describe()}, {len(recording.about.tickers)} markets"
        console().print(text, markup=False, soft_wrap=True)
    return imported


def _load_listings(tickers: Sequence[str], fee: str | None) -> Listings:
    """Load from the lake what was pulled about markets. fee: value of the option, which replaces the pulled fees."""
    from bellwether.lake import Lake
    from bellwether.replay.episode_builder.listings import load_listings, parse_fee

    return load_listings(Lake.of(settings()), tickers, None if fee is None else parse_fee(fee))


def _write_episode(content: Content) -> Episode:
    from bellwether.replay.episode.folder import write

    return write(settings().episodes_path / content.metadata.episode_id, content)


@episode.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", help="Id of the episode.  [default: its own]")
@_RESULTS
@_FEE
def import_(folder: Path, *, name: str | None, results: tuple[str, ...], fee: str | None) -> None:
    """Import the episode in FOLDER.

    It is Bellwether's, one of PredictionMarketBench (full books, whole cents), market data of hftbacktest (TICKER.npz), or a catalog of nautilus_trader
    (docs/bridges.md).
    """
    from bellwether.replay.episode_builder.listings import parse_results, set_settlement_time, with_fees

    content = _read_episode(folder)
    chosen = check_name(content.metadata.episode_id if name is None else name, "the episode (--name)")
    about = replace(content.metadata, episode_id=chosen)
    stated = parse_results(results)
    if unknown := sorted(set(stated) - set(about.tickers)):
        raise ConfigError(f"importing {folder}: it has no market {', '.join(unknown)}; it has {', '.join(about.tickers)}")
    ended = {ticker: set_settlement_time(settlement, about.end) for ticker, settlement in stated.items()}
    settlements = tuple(ended.get(settlement.ticker, settlement) for settlement in content.settlements)
    if about.venue == "kalshi":
        about = with_fees(about, _load_listings(about.tickers, fee))
    _print_written([_write_episode(replace(content, metadata=about, settlements=settlements))])


def _read_episode(folder: Path) -> Content:
    """Read an episode in the format that the files of a folder have."""
    from bellwether.bridges import hftbacktest, nautilus
    from bellwether.replay.episode.folder import load
    from bellwether.replay.episode.import_pmb import read_pmb

    if (folder / "data").is_dir():
        return nautilus.read_episode(folder)
    if any(folder.glob("*.npz")):
        return hftbacktest.read_episode(folder)
    return load(folder).content if "format" in read_json(folder, METADATA) else read_pmb(folder)


@episode.command()
@click.argument("which", metavar="PATH|ID")
@click.option("--format", "form", type=click.Choice(["hftbacktest", "nautilus"]), required=True, help="Simulator.")
@click.option(
    "--to", "target", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder; an earlier export is replaced."
)
def export(which: str, form: str, target: Path) -> None:
    """Write an episode, by folder or id, for another simulator. See docs/bridges.md."""
    from bellwether.bridges import hftbacktest, nautilus
    from bellwether.replay.episode.folder import load

    source = load(_find_episode(which))
    write = hftbacktest.write_episode if form == "hftbacktest" else nautilus.write_episode
    written = write(target, source)
    console().print(f"{source.id}: {len(written)} markets in {target}", markup=False, soft_wrap=True)


def _print_episodes(rows: list[dict[str, Any]]) -> None:
    if usable := [row for row in rows if row["problem"] is None]:
        hidden = {"event", "problem", *(() if any(row["exogenous"] for row in usable) else ("exogenous",))}
        frame = pl.DataFrame(usable, infer_schema_length=None).select(name for name in COLUMNS if name not in hidden)
        console().print(grid(frame.with_columns(pl.col("start").str.replace("T", " ").str.head(16)), most=len(usable)))
    for row in rows:
        if row["problem"] is not None:
            console().print(f"{row['episode']}: {row['problem']}", markup=False, soft_wrap=True)


def _print_written(episodes: list[Episode]) -> None:
    for written in episodes:
        for warning in written.warnings:
            click.echo(f"{written.id}: {warning}", err=True)
        row = build_row(written.id, written.metadata, written.content.settlements, written.digest)
        text = f"{written.id}: {row['markets']} markets, {row['hours']} h, {row['settled']} settled, digest {row['digest']}"
        console().print(text, markup=False, soft_wrap=True)


def _find_episode(which: str) -> Path:
    """Return the folder of an episode that is named by its folder or its id."""
    folder = place(which) if place(which).is_dir() else settings().episodes_path / which
    if not folder.is_dir():
        raise ConfigError(f"exporting the episode {which!r}: neither it nor {folder} is a folder; `bellwether episode` lists the episodes")
    return folder
