"""Checks of an episode's content. Each adds *findings*: errors (the episode is refused), warnings, or notes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bellwether.errors import BellwetherError
from bellwether.replay import units
from bellwether.replay.episode.books import ParsedBook, best_prices
from bellwether.replay.episode.columns import first_true
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.metadata import METADATA, SETTLEMENT, Metadata, Settlement, format_iso
from bellwether.replay.episode.price_levels import PriceLevels
from bellwether.replay.episode.report import ERROR, INFO, WARNING, Findings
from bellwether.replay.episode.trades import TAKER_PRICE, apply_convention, match_levels
from bellwether.replay.rules import fee_terms, rule_set, rules_for
from bellwether.replay.tape.layout import INVALID, unpack

#: Fee models of the original supported by the rule sets.
FEE_MODELS = ("kalshi_oct_2025",)


def check_terms(metadata: Metadata, findings: Findings) -> None:
    """Add an error if the rule set or a market's fee terms are unknown, a warning if a market has only the venue's general fees."""
    if metadata.fee_model_version not in (None, *FEE_MODELS):
        message = f"fee_model_version is {metadata.fee_model_version!r:.80}; it must be one of {', '.join(FEE_MODELS)} or null"
        findings.add(ERROR, "fees", f"reading {METADATA}: {message}", METADATA)
    try:
        day = datetime.fromtimestamp(metadata.start // units.SECOND, UTC).date()
        rules = rule_set(metadata.rules) if metadata.rules else rules_for(metadata.venue, day)
    except BellwetherError as error:
        findings.add(ERROR, "rules", f"reading {METADATA}: {error}", METADATA)
        return
    defaults = [market.ticker for market in metadata.markets if rules.uses_fee_terms and market.has_default_fee]
    if defaults:
        message = (
            f"the fees of {len(defaults)} of {len(metadata.markets)} markets are unknown ({_join_names(defaults)}): the venue's general fees apply, "
            "under which makers may pay nothing; build or import it again with --fee, --series or --ticker"
        )
        findings.add(WARNING, "fees", message, METADATA)
    for market in metadata.markets:
        try:
            fee_terms(rules, market.fee)
        except BellwetherError as error:
            findings.add(ERROR, "fees", f"reading {METADATA}: market {market.ticker}: {error}", METADATA)
        except (TypeError, ArithmeticError) as error:
            problem = f"fee is {dict(market.fee)!r:.80}, which cannot be read ({error})"
            findings.add(ERROR, "fees", f"reading {METADATA}: market {market.ticker}: {problem}", METADATA)


def check_winners(metadata: Metadata, settlements: tuple[Settlement, ...], findings: Findings) -> None:
    """Check that a mutually exclusive event has at most one winner, and has one when all markets are settled. Warn if some never are."""
    winners = [settlement.ticker for settlement in settlements if settlement.result == "YES"]
    unsettled = [settlement.ticker for settlement in settlements if not settlement.is_known]
    if unsettled:
        message = f"{len(unsettled)} of {len(settlements)} markets never settle: {_join_names(unsettled)}"
        findings.add(WARNING, "settlement", message, SETTLEMENT)
    if metadata.mutually_exclusive is None:
        message = f"{len(winners)} winners; metadata.json does not state whether the markets exclude each other"
        findings.add(INFO, "winners", message, SETTLEMENT)
    elif metadata.mutually_exclusive and len(winners) > 1:
        message = f"{_join_names(winners)} are all YES, but the markets exclude each other; correct the results or mutually_exclusive"
        findings.add(ERROR, "winners", f"reading {SETTLEMENT}: {message}", SETTLEMENT)
    elif metadata.mutually_exclusive and not winners and not unsettled:
        findings.add(WARNING, "winners", "no market is YES, though all are settled and exclude each other", SETTLEMENT)


def check_event(metadata: Metadata, findings: Findings) -> None:
    """Add a note if the episode has one market although its ticker suggests that the event has several."""
    ticker, event = metadata.tickers[0], metadata.event_slug or ""
    # A ticker that ends in a number, such as a strike or a minute, names no outcome.
    is_outcome = ticker.startswith(f"{event}-") and ticker.rpartition("-")[2].isalpha()
    if metadata.mutually_exclusive is not False and len(metadata.tickers) == 1 and is_outcome:
        message = f"{ticker} is the only market of {metadata.event_slug} here; where the venue lists others, the recording lacks them"
        findings.add(INFO, "coverage", message, METADATA)


def _join_names(names: list[str]) -> str:
    """Join the first five names, and state how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_source(metadata: Metadata, findings: Findings) -> None:
    """Check that each book frame that was received was either applied to a book or lies in a gap of one; warn about lost trades."""
    source = metadata.source
    unapplied, uncovered, lost = (_read_count(source, name) for name in ("unapplied", "uncovered", "trades_lost"))
    if uncovered:
        message = (
            f"{uncovered} received frames of books were neither applied nor in a gap of a readable book; build it again from the recording"
        )
        findings.add(ERROR, "gaps", f"reading {METADATA}: {message}", METADATA)
    elif unapplied and uncovered is None:
        message = f"{unapplied} frames of books were not applied, and source.uncovered is missing; build it again from the recording"
        findings.add(ERROR, "gaps", f"reading {METADATA}: {message}", METADATA)
    if lost:
        message = f"{lost} messages of trade subscriptions were lost; resting orders fill less than they would have"
        findings.add(WARNING, "trades", message, METADATA)


def _read_count(source: Mapping[str, Any], name: str) -> int | None:
    value = source.get(name)
    return value if type(value) is int else None


def check_book(rows: ParsedBook, metadata: Metadata, findings: Findings) -> None:
    """Check that no book is crossed or locked. Warn about markets without book rows and rows outside of the episode's window."""
    book, tickers = rows.book, metadata.tickers
    findings.counts.update({"book rows": len(book.ts), "level changes": len(book.words)})
    yes, no, is_valid, is_last = best_prices(book, rows.levels)
    total, counted = yes + no, is_valid & is_last & (yes > 0) & (no > 0)
    for wrong, problem in (
        (total > units.DOLLAR, "crosses: YES bid {yes:g} and NO bid {no:g} cents are more than a dollar"),
        (total == units.DOLLAR, "is locked: its YES and NO bids add up to a dollar, which is invalid"),
    ):
        if (row := first_true(wrong & counted)) >= 0:
            at, best = int(rows.first[row]), problem.format(yes=yes[row] / units.CENT, no=no[row] / units.CENT)
            message = f"the book of {tickers[book.ticker[row]]} {best}; {int((wrong & counted).sum())} such instants"
            findings.add(ERROR, "crossing", f"reading {rows.file}: row {at}: {message}", rows.file, at)
    kind, ticker, *_ = unpack(book.words)
    counts = np.bincount(ticker[kind != INVALID], minlength=len(tickers))
    if empty := [ticker for ticker, count in zip(tickers, counts, strict=True) if not count]:
        findings.add(WARNING, "coverage", f"{len(empty)} of {len(tickers)} markets have no book row: {_join_names(empty)}", rows.file)
    _check_window(rows.file, "book rows", book.ts, metadata, findings)
    if len(book.ts):
        pauses = np.diff(book.ts)
        pause = f"; longest pause {int(pauses.max()) / units.SECOND:,.1f} s" if len(pauses) else ""
        findings.add(INFO, "coverage", f"book rows from {format_iso(int(book.ts[0]))} to {format_iso(int(book.ts[-1]))}{pause}", rows.file)


def _check_window(file: str, kind: str, ts: np.ndarray, metadata: Metadata, findings: Findings) -> None:
    """Warn about rows outside of the episode's window. kind: what the rows are, for the message. ts: their times."""
    outside = (ts < metadata.start) | (ts > metadata.end)
    if (row := first_true(outside)) >= 0:
        message = f"{int(outside.sum())} {kind} lie outside start_ts and end_ts, the first at {format_iso(int(ts[row]))}"
        findings.add(WARNING, "coverage", message, file, row)


def check_gaps(rows: ParsedBook, metadata: Metadata, findings: Findings) -> None:
    """Check that the markets with gaps in the metadata are the markets with rows of kind invalid, and that each of them has a book outside of them."""
    kind, ticker, *_ = unpack(rows.book.words)
    marked = np.unique(ticker[kind == INVALID])
    unread = {metadata.tickers[code] for code in np.setdiff1d(marked, ticker[kind != INVALID])}
    for gap in metadata.gaps:
        if gap.ticker in unread:
            message = f"{gap.ticker} has no book, only a gap: {gap.cause}; leave it out, or correct its frames and build it again"
            findings.add(ERROR, "gaps", f"reading {METADATA}: {message}", METADATA)
    stated = {gap.ticker for gap in metadata.gaps}
    findings.counts["gaps"] = len(metadata.gaps)
    if unmarked := sorted(stated - {metadata.tickers[code] for code in marked}):
        findings.add(WARNING, "gaps", f"gaps are stated, but no row of kind invalid marks them: {_join_names(unmarked)}", rows.file)
    if unstated := sorted({metadata.tickers[code] for code in marked} - stated):
        findings.add(WARNING, "gaps", f"rows of kind invalid, but no gap is stated in metadata.json: {_join_names(unstated)}", METADATA)
    if metadata.gaps:
        seconds = sum((gap.end or metadata.end) - gap.start for gap in metadata.gaps) / units.SECOND
        findings.add(INFO, "gaps", f"{len(metadata.gaps)} gaps, {seconds:,.1f} s in all", METADATA)


def check_trades(file: str, content: Content, levels: PriceLevels, findings: Findings) -> None:
    """Check that trades hit displayed levels of the book, at prices of YES that are on the market's grid."""
    trades, tickers = content.trades, content.metadata.tickers
    findings.counts["trades"] = len(trades.ts)
    if not len(trades.ts):
        findings.add(INFO, "trades", "no trades: resting orders fill only where the book crosses them", file)
        return
    _check_window(file, "trades", trades.ts, content.metadata, findings)
    hit = match_levels(content.book, trades, levels)
    share = f"{int(hit.sum()):,} of {len(hit):,} trades ({hit.mean():.1%}) hit a displayed level"
    if (row := first_true(~hit)) >= 0:
        side, price = trades.passive
        first = f"the first that does not is row {row}: {tickers[trades.ticker[row]]}, {('YES', 'NO')[side[row]]} bid at {price[row] / units.CENT:g} cents"
        findings.add(WARNING, "trades", f"{share}; {first}", file, row)
    else:
        findings.add(INFO, "trades", share, file)
    flipped = match_levels(content.book, apply_convention(trades, TAKER_PRICE), levels)
    by_no = trades.taker == 1
    if flipped[by_no].sum() > hit[by_no].sum():
        counts = f"{int(flipped[by_no].sum()):,} of {int(by_no.sum()):,} trades of NO takers fit at the other side's price"
        findings.add(WARNING, "trades", f"{counts}, {int(hit[by_no].sum()):,} as given; is the price that of YES?", file)
    off = ~levels.allow(trades.ticker, trades.price)
    if (row := first_true(off)) >= 0:
        first = f"row {row}: {tickers[trades.ticker[row]]} at {trades.price[row] / units.CENT:g} cents"
        findings.add(WARNING, "trades", f"{int(off.sum())} trades are off their market's price grid, the first is {first}", file, row)
    _check_after_settlement(file, content, findings)


def _check_after_settlement(file: str, content: Content, findings: Findings) -> None:
    """Warn about trades after the settlement of their market."""
    at = np.array([s.at if s.is_known else np.iinfo(np.int64).max for s in content.settlements], np.int64)
    late = content.trades.ts > at[content.trades.ticker]
    if (row := first_true(late)) >= 0:
        message = f"{int(late.sum())} trades are later than their market's settlement, the first is row {row}"
        findings.add(WARNING, "trades", message, file, row)
