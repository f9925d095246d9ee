"""Reading of an episode's folder. All content is checked, and an episode with an error is refused.

A *receipt* is a file in a cache that records a passed check, so that unchanged files need not be checked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bellwether.errors import ConfigError, SchemaError
from bellwether.files import atomic_file, checked, local_copy, with_checksum
from bellwether.places import place
from bellwether.replay.arrow import plain_memory
from bellwether.replay.episode import checks, trades
from bellwether.replay.episode.books import NAMES as BOOK_FILES
from bellwether.replay.episode.books import read_book
from bellwether.replay.episode.columns import FileColumns, read_parquet
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.metadata import EXOGENOUS, METADATA, SETTLEMENT, Gap, Metadata, Settlement, parse_metadata, read_json
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.episode.report import ERROR, INFO, Findings, Report
from bellwether.replay.episode.settlements import parse_settlements

#: Incremented whenever the checks or the digest change, so that episodes are checked again.
CHECKS_VERSION = 4
FILES = (METADATA, SETTLEMENT, *BOOK_FILES, *trades.NAMES, EXOGENOUS)
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class Episode:
    """Episode whose content has passed all checks.

    id: its name. digest: hex SHA-256 of its content. trade_price: side whose price the trades in its files state: YES, or the taker's.
    """

    id: str
    folder: Path
    metadata: Metadata
    settlements: tuple[Settlement, ...]
    digest: str
    trade_price: str

    @property
    def tickers(self) -> tuple[str, ...]:
        """Tickers in the order of their codes."""
        return self.metadata.tickers

    @cached_property
    def content(self) -> Content:
        """Books, trades and series. If the episode was loaded by receipt, the files are read now and must be unchanged."""
        content, report = _examine_files(self.folder, self.trade_price)
        if content is None or report.digest != self.digest:
            raise SchemaError(f"reading the episode {self.id}: {self.folder} changed since it was loaded; load it again")
        return content

    def replace_content(self, content: Content) -> Episode:
        """Set `content` as the episode's content, so that the files are not read for it, and return the episode itself."""
        self.__dict__["content"] = content
        return self

    def counts(self) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        """Return two mappings by ticker: number of book rows, and (number of trades, lots traded)."""
        book, trades, count = self.content.book, self.content.trades, len(self.tickers)
        rows = np.bincount(book.ticker, minlength=count).tolist()
        prints = np.bincount(trades.ticker, minlength=count).tolist()
        lots = np.zeros(count, np.int64)
        np.add.at(lots, trades.ticker, trades.lots)
        traded = zip(prints, lots.tolist(), strict=True)
        return dict(zip(self.tickers, rows, strict=True)), dict(zip(self.tickers, traded, strict=True))

    @property
    def exogenous(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Exogenous series by name: (ts int64, ns UTC, non-decreasing; value float64)."""
        content: Content | None = self.__dict__.get("content")
        return read_exogenous(local_copy(self.folder, METADATA), self.metadata) if content is None else content.exogenous


def load(folder: Path, *, trade_price: str = trades.AUTO, cache: Path | None = None) -> Episode:
    """Load the episode in `folder`, local or in an object store, in Bellwether's format or PredictionMarketBench's.

    trade_price: side of the prices of the original's trades: taker, yes or auto (the one that agrees with the books). cache: folder of
    receipts of checked files; unchanged files are then not read and checked again until the content is used. Raises `SchemaError` naming
    file, row and value of the errors.
    """
    folder = place(folder)
    files = None if cache is None else _files_digest(local_copy(folder, METADATA), trade_price)
    receipt = None if cache is None or files is None else _receipt(cache, files)
    if receipt is not None:
        return _load_receipt(folder, receipt)
    content, report = _examine_files(folder, trade_price)
    if content is None or report.digest is None:
        errors = [finding.message for finding in report.errors]
        more = f" ({len(errors) - _MOST_NAMED} more errors)" if len(errors) > _MOST_NAMED else ""
        raise SchemaError(f"the episode in {folder} is refused: {'; '.join(errors[:_MOST_NAMED])}{more}")
    # Files that change while being read get no receipt.
    if cache is not None and files == _files_digest(local_copy(folder, METADATA), trade_price):
        with atomic_file(cache / f"{files}.json") as draft:
            gaps = [(gap.ticker, gap.start, gap.end, gap.cause) for gap in content.metadata.gaps]
            receipt = {"files": files, "digest": report.digest, "source": dict(content.metadata.source), "gaps": gaps}
            draft.write_bytes(with_checksum(orjson.dumps(receipt)))
    return _episode(folder, content.metadata, content.settlements, report.digest).replace_content(content)


def _load_receipt(folder: Path, receipt: Mapping[str, Any]) -> Episode:
    """Load an episode by the receipt of its files: read only metadata and settlements, and check nothing."""
    local = local_copy(folder, METADATA)
    metadata, settlements = _read_settlements(local, parse_metadata(read_json(local, METADATA)))
    gaps = tuple(Gap(*gap) for gap in receipt["gaps"])
    return _episode(folder, replace(metadata, source=receipt["source"], gaps=gaps), settlements, receipt["digest"])


def _episode(folder: Path, metadata: Metadata, settlements: tuple[Settlement, ...], digest: str) -> Episode:
    """Build an episode from its metadata, settlements and digest."""
    stated = metadata.source.get("trade_price")
    return Episode(metadata.episode_id, folder, metadata, settlements, digest, stated if stated in trades.CONVENTIONS else trades.YES_PRICE)


def load_original(folder: Path, trade_price: str = trades.AUTO, *, cache: Path | None = None) -> Episode:
    """Load a folder in the format of PredictionMarketBench; otherwise like `load`."""
    return load(folder, trade_price=trade_price, cache=cache)


def validate(folder: Path, *, trade_price: str = trades.AUTO) -> Report:
    """Run all checks of the episode in `folder` and return the findings. `load` refuses an episode with errors.

    Invalid content of files is a finding, never an exception.
    """
    return _examine_files(place(folder), trade_price)[1]


def _read_settlements(folder: Path, metadata: Metadata) -> tuple[Metadata, tuple[Settlement, ...]]:
    """Read the settlements. Returns the metadata, with close times that only the settlement file states, and the settlements."""
    settlements, closes = parse_settlements(read_json(folder, SETTLEMENT), metadata.tickers)
    markets = tuple(replace(m, close_time=m.close_time or closes.get(m.ticker)) for m in metadata.markets)
    return replace(metadata, markets=markets), settlements


def _examine_files(folder: Path, trade_price: str) -> tuple[Content | None, Report]:
    """Read and check all files of an episode. Returns the content (None after an error) and the report of findings."""
    if trade_price not in trades.CONVENTIONS:
        raise ConfigError(f"reading {folder}: trade_price is {trade_price!r:.40}; it must be one of {', '.join(trades.CONVENTIONS)}")
    findings = Findings()
    local = local_copy(folder, METADATA)
    metadata, settlements, values = None, None, None
    with findings.collecting_errors("metadata", METADATA):
        values = read_json(local, METADATA)
        metadata = parse_metadata(values)
    if metadata is None:
        return None, findings.report(folder, None)
    with findings.collecting_errors("settlement", SETTLEMENT):
        metadata, settlements = _read_settlements(local, metadata)
        checks.check_winners(metadata, settlements, findings)
    checks.check_terms(metadata, findings)
    checks.check_event(metadata, findings)
    checks.check_source(metadata, findings)
    findings.counts["markets"] = len(metadata.markets)
    book = trade_file = exogenous = None
    with findings.collecting_errors("book", BOOK_FILES[0]), plain_memory():
        book = read_book(local, metadata.markets)
        metadata = replace(metadata, gaps=(*metadata.gaps, *book.gaps))
        checks.check_book(book, metadata, findings)
        checks.check_gaps(book, metadata, findings)
    with findings.collecting_errors("trades", trades.NAMES[0]), plain_memory():
        if metadata.has_trades:
            trade_file = trades.read_trades(local, metadata.tickers, required="format" in values)
        else:
            trade_file = trades.NAMES[0], trades.no_trades(), False
    with findings.collecting_errors("exogenous", EXOGENOUS):
        exogenous = read_exogenous(local, metadata)
    if settlements is None or book is None or trade_file is None or exogenous is None:
        return None, findings.report(folder, None)
    file, prints, is_original = trade_file
    content = Content(metadata, settlements, book.book, prints, exogenous)
    if is_original:
        content = _convert_prices(content, book.levels, trade_price, file, findings)
    checks.check_trades(file, content, book.levels, findings)
    digest = content.digest()
    if values.get("digest") not in (None, digest):
        message = f"digest is {str(values['digest'])!r:.80}, the content has {digest}; restore the files, or remove the digest"
        findings.add(ERROR, "digest", f"reading {METADATA}: {message}", METADATA)
    return (None, findings.report(folder, None)) if findings.has_errors else (content, findings.report(folder, digest))


def read_exogenous(folder: Path, metadata: Metadata) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Read the exogenous series by name: (ts int64, ns UTC, non-decreasing; value float64). Raises `SchemaError` for an invalid file."""
    names = [series.name for series in metadata.exogenous]
    path = folder / EXOGENOUS
    if not path.is_file():
        if names:
            raise SchemaError(f"reading {folder.name}: {EXOGENOUS} is missing, yet metadata.json names the series {', '.join(names)}")
        return {}
    columns = FileColumns(read_parquet(path, dictionaries=("name",)), path.name)
    ts, code, value = columns.times("ts"), columns.codes("name", names), columns.floats("value")
    columns.require_order("ts", ts)
    return {name: (ts[code == position], value[code == position]) for position, name in enumerate(names)}


def _convert_prices(content: Content, levels: PriceLevels, trade_price: str, file: str, findings: Findings) -> Content:
    """Convert the trades' prices, which may be of the taker's side, to prices of YES. Records the side in the metadata.

    trade_price: taker, yes, or auto for the side that agrees with the books.
    """
    convention, reason = trade_price, "as asked for"
    if trade_price == trades.AUTO:
        convention, reason = trades.infer_convention(content.book, content.trades, levels), "chosen because it agrees with the books"
    side = "YES" if convention == trades.YES_PRICE else "the taker side"
    findings.add(INFO, "trades", f"prices are read as those of {side}, {reason}", file)
    metadata = replace(content.metadata, source={**content.metadata.source, "trade_price": convention})
    return replace(content, metadata=metadata, trades=trades.apply_convention(content.trades, convention))


def _files_digest(folder: Path, trade_price: str) -> str:
    """Compute the SHA-256, in hex, of an episode's files, of `trade_price`, and of the version of the checks: the name of a receipt."""
    digest = hashlib.sha256(f"{CHECKS_VERSION}:{trade_price}".encode())
    for name in FILES:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                digest.update(f":{name}:{hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


def _receipt(cache: Path, files: str) -> dict[str, Any] | None:
    """Read the receipt of files with the digest `files`. None if it is missing or damaged."""
    try:
        content = checked((cache / f"{files}.json").read_bytes())
    except OSError:
        return None
    receipt: dict[str, Any] = {} if content is None else orjson.loads(content)
    return receipt if receipt.get("files") == files else None
