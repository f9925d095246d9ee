"""Checks of an episode's content. Each adds *findings*: errors (the episode is refused) or warnings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from bellwether.errors import BellwetherError, SchemaError
from bellwether.recordings.exchange_times import format_time
from bellwether.replay.arrow import values_of
from bellwether.replay.episode.content import ORDERBOOK, TRADES, BookColumns, Content, Trades
from bellwether.replay.episode.model import METADATA, SETTLEMENT, Metadata, Settlement
from bellwether.replay.rules import PMB, fee_terms, rule_set, rules_for
from bellwether.replay.tape.layout import INVALID, LEVEL, PRICES, VALID, freeze, unpack
from bellwether.replay.units import CENT, DOLLAR, MAX_LOTS, SECOND

ERROR, WARNING = "error", "warning"
#: A level counts as displayed for a trade if it was within this time before the trade, ns.
WINDOW = 2 * SECOND


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check.

    severity: error (the episode is refused) or warning. check: name of the check. file, row: location, with rows counted from 0.
    """

    severity: str
    check: str
    message: str
    file: str | None = None
    row: int | None = None


@dataclass
class Report:
    """Findings for an episode, errors first. name: of the episode. digest: of the content, None after an error. counts: of rows etc."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    digest: str | None = None

    def add(self, severity: str, check: str, message: str, file: str | None = None, row: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, check, message, file, row))
        self.findings.sort(key=lambda finding: finding.severity)

    @contextmanager
    def collecting_errors(self, check: str, file: str) -> Iterator[None]:
        """Catch a `SchemaError` raised in the block and add it as a finding of severity error."""
        try:
            yield
        except SchemaError as error:
            self.add(ERROR, check, str(error), file, getattr(error, "row", None))

    @property
    def errors(self) -> list[Finding]:
        """Findings that make the episode invalid."""
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that a user should look at although the episode can be replayed."""
        return [finding for finding in self.findings if finding.severity == WARNING]

    @property
    def is_valid(self) -> bool:
        """True if the episode can be replayed."""
        return not self.errors

    def text(self) -> str:
        """Return the report as lines of plain text."""
        counts = ", ".join(f"{number:,} {name}" for name, number in self.counts.items())
        verdict = "valid" if self.is_valid else "refused"
        lines = [f"{self.name}: {verdict}; {counts}" if counts else f"{self.name}: {verdict}"]
        return "\n".join([*lines, *(f"{finding.severity:8}{finding.check}: {finding.message}" for finding in self.findings)])

    def require_valid(self) -> None:
        """Raise `SchemaError` with the first errors, if there are any."""
        if errors := [finding.message for finding in self.errors]:
            more = f" ({len(errors) - 5} more errors)" if len(errors) > 5 else ""
            raise SchemaError(f"the episode {self.name} is refused: {'; '.join(errors[:5])}{more}")


class RowError(SchemaError):
    """Error in a row of a file."""

    def __init__(self, file: str, row: int, problem: str) -> None:
        self.row = row
        super().__init__(f"{file}: row {row}: {problem}")


def check_content(content: Content, stated: str | None, report: Report) -> None:
    """Check content whose rows are valid (`check_rows`, `check_trade_rows`). stated: digest in its metadata."""
    metadata = content.metadata
    report.counts["markets"] = len(metadata.markets)
    _check_terms(metadata, report)
    _check_source(metadata, report)
    _check_winners(metadata, content.settlements, report)
    fold = fold_book(content.book, content.trades, len(metadata.markets))
    _check_book(content, fold, report)
    _check_gaps(content, report)
    _check_trades(content, fold, report)
    digest = content.digest()
    if stated not in (None, digest):
        message = f"digest is {str(stated)!r:.80}, the content has {digest}; restore the files, or remove the digest"
        report.add(ERROR, "digest", f"reading {METADATA}: {message}", METADATA)
    report.digest = digest if report.is_valid else None


# --- metadata and settlements ------------------------------------------------------------------------------------------


def _check_terms(metadata: Metadata, report: Report) -> None:
    """Add an error if the rule set or a market's fee terms are unknown, a warning if a market has only the venue's general fees."""
    if metadata.rules == PMB:  # its markets have no terms
        return
    try:
        rules = rule_set(metadata.rules) if metadata.rules else rules_for(metadata.venue, metadata.day)
    except BellwetherError as error:
        report.add(ERROR, "rules", f"reading {METADATA}: {error}", METADATA)
        return
    defaults = [market.ticker for market in metadata.markets if rules.uses_fee_terms and market.has_default_fee]
    if defaults:
        message = (
            f"the fees of {len(defaults)} of {len(metadata.markets)} markets are unknown ({_join_names(defaults)}): the venue's general fees "
            "apply, under which makers may pay nothing; build or import it again with --fee"
        )
        report.add(WARNING, "fees", message, METADATA)
    for market in metadata.markets:
        try:
            fee_terms(rules, market.fee)
        except BellwetherError as error:
            report.add(ERROR, "fees", f"reading {METADATA}: market {market.ticker}: {error}", METADATA)
        except (TypeError, ArithmeticError) as error:
            problem = f"fee is {dict(market.fee)!r:.80}, which cannot be read ({error})"
            report.add(ERROR, "fees", f"reading {METADATA}: market {market.ticker}: {problem}", METADATA)


def _check_winners(metadata: Metadata, settlements: tuple[Settlement, ...], report: Report) -> None:
    """Check that a mutually exclusive event has at most one winner, and one when all markets are settled. Warn if some never are."""
    winners = [settlement.ticker for settlement in settlements if settlement.result == "YES"]
    unsettled = [settlement.ticker for settlement in settlements if not settlement.is_known]
    if unsettled:
        message = f"{len(unsettled)} of {len(settlements)} markets never settle: {_join_names(unsettled)}"
        report.add(WARNING, "settlement", message, SETTLEMENT)
    if metadata.mutually_exclusive and len(winners) > 1:
        message = f"{_join_names(winners)} are all YES, but the markets exclude each other; correct the results or mutually_exclusive"
        report.add(ERROR, "winners", f"reading {SETTLEMENT}: {message}", SETTLEMENT)
    elif metadata.mutually_exclusive and not winners and not unsettled:
        report.add(WARNING, "winners", "no market is YES, though all are settled and exclude each other", SETTLEMENT)


def _check_source(metadata: Metadata, report: Report) -> None:
    """Check that each book frame that was received was either applied to a book or lies in a gap of one; warn about lost trades."""
    stated = (metadata.source.get(name) for name in ("uncovered", "trades_lost"))
    uncovered, lost = (value if type(value) is int else None for value in stated)
    if uncovered:
        message = f"{uncovered} received frames of books were neither applied nor in a gap of a readable book"
        report.add(ERROR, "gaps", f"reading {METADATA}: {message}; build it again from the recording", METADATA)
    if lost:
        message = f"{lost} messages of trade subscriptions were lost; resting orders fill less than they would have"
        report.add(WARNING, "trades", message, METADATA)


def _join_names(names: list[str]) -> str:
    """Join the first five names, and state how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# --- rows ----------------------------------------------------------------------------------------------------------------


def check_rows(book: BookColumns, metadata: Metadata) -> BookColumns:
    """Return a book whose rows and words are in order, and their values in range. Raises `RowError` for the first invalid row."""
    _require_order(ORDERBOOK, book.ts)
    _require_codes(ORDERBOOK, book.ticker, metadata)
    kind, ticker, side, price, lots = unpack(book.words)
    row = np.repeat(np.arange(len(book.ts)), book.counts)
    # The order within a row: INVALID, levels by side and price, VALID.
    rank = np.where(kind == LEVEL, 1 + side * PRICES + price, np.where(kind == INVALID, 0, 1 << 15))
    in_order = np.ones(len(rank), np.bool_)
    in_order[1:] = (rank[1:] > rank[:-1]) | (row[1:] > row[:-1])
    is_level = kind == LEVEL
    allowed = np.stack([_allowed_prices(grids) for grids in (market.price_grids() for market in metadata.markets)])
    on_grid = ~is_level | (allowed[np.minimum(ticker, len(allowed) - 1), np.minimum(price, DOLLAR)] & (price <= DOLLAR))
    for valid, problem in (
        (is_level | np.isin(kind, (INVALID, VALID)), "is no level, invalid or valid"),
        (ticker == book.ticker[row], "is about another market than its row"),
        ((lots >= 0) & (lots <= MAX_LOTS), f"has a size below 0 or above {MAX_LOTS} lots"),
        (on_grid, "is not on the market's price grid; see price_ranges in metadata.json"),
        (in_order, "is out of order; a row has invalid first, then each level once, by side and price, then valid"),
    ):
        if (word := first_true(~valid)) >= 0:
            raise RowError(ORDERBOOK, int(row[word]), f"{_describe_word(int(book.words[word]), metadata)} {problem}")
    return book


def _allowed_prices(grids: list[tuple[int, np.ndarray]]) -> np.ndarray:
    """Mark the prices of grids and a dollar less each, bool[10001]."""
    allowed = np.zeros(PRICES, np.bool_)
    for _, prices in grids:
        allowed[prices] = allowed[DOLLAR - prices] = True
    return allowed


def _describe_word(word: int, metadata: Metadata) -> str:
    kind, ticker, side, price, lots = unpack(word)
    name = metadata.tickers[ticker] if ticker < len(metadata.tickers) else f"market {ticker}"
    return f"{lots} lots of {name}, {('YES', 'NO')[side]} at {price / CENT:g} cents," if kind == LEVEL else f"the word {word} of {name}"


def check_trade_rows(trades: Trades, metadata: Metadata) -> Trades:
    """Return trades whose columns are valid. Raises `RowError` for the first invalid row."""
    _require_order(TRADES, trades.ts)
    _require_codes(TRADES, trades.ticker, metadata)
    _refuse_duplicates(trades)
    for name, valid, wanted in (
        ("taker", (trades.taker == 0) | (trades.taker == 1), "0 for yes or 1 for no"),
        ("price", (trades.price > 0) & (trades.price < DOLLAR), "between 0 and a dollar"),
        ("lots", (trades.lots > 0) & (trades.lots <= MAX_LOTS), f"from 1 to {MAX_LOTS}"),
    ):
        if (row := first_true(~valid)) >= 0:
            raise RowError(TRADES, row, f"{name} is {getattr(trades, name)[row]}; it must be {wanted}")
    return trades


def _require_order(file: str, ts: np.ndarray) -> None:
    if (row := first_true(ts[1:] < ts[:-1]) + 1) > 0:
        raise RowError(file, row, f"ts is {format_time(int(ts[row]))}, before that of row {row - 1}; sort the rows by time")


def _require_codes(file: str, ticker: np.ndarray, metadata: Metadata) -> None:
    if (row := first_true((ticker < 0) | (ticker >= len(metadata.markets)))) >= 0:
        raise RowError(file, row, f"ticker is {ticker[row]}; the episode has {len(metadata.markets)} markets")


def _refuse_duplicates(trades: Trades) -> None:
    """Raise `RowError` for a trade id that occurs twice; empty ids may."""
    encoded = trades.trade_id.dictionary_encode()
    if len(encoded.dictionary) == len(encoded):
        return
    codes = values_of(encoded.indices)
    _, first = np.unique(codes, return_index=True)
    for row in np.setdiff1d(np.arange(len(codes)), first):
        if name := trades.trade_id[int(row)].as_py():
            raise RowError(TRADES, int(row), f"trade_id is {name!r:.80}, given before; name each trade once")


def first_true(mask: np.ndarray) -> int:
    """Return the index of the first true value, -1 without one."""
    row = int(np.argmax(mask)) if len(mask) else 0
    return row if len(mask) and mask[row] else -1


# --- the book ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BookFold:
    """Result of one pass over the books.

    bids: int64[rows, 2], best YES and NO bid after the last row of a market's instant; 0 for none, in an invalid book and after other rows.
    unchanged: first row with a word that changes nothing, -1 without one. hits: bool[trades, 2], whether the trade hit a level that was
    displayed up to `WINDOW` before, at its price and at a dollar less its price for NO takers.
    """

    bids: np.ndarray
    unchanged: int
    hits: np.ndarray


def fold_book(book: BookColumns, trades: Trades, markets: int) -> BookFold:
    """Rebuild the books once, and compare them with the trades. markets: their number."""
    side, price = trades.passive
    other = np.where(trades.taker == 1, DOLLAR - price, price)
    shape = markets, 2, PRICES
    state = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    printed = trades.ts, trades.ticker, side, freeze(np.column_stack([price, other]))
    return BookFold(*_fold((book.ts, book.ticker, book.end, book.words), state, printed, WINDOW))


@njit(cache=True, nogil=True)
def _fold(
    messages: tuple[np.ndarray, ...], state: tuple[np.ndarray, np.ndarray], printed: tuple[np.ndarray, ...], window: int
) -> tuple[np.ndarray, int, np.ndarray]:
    ts, ticker, end, words = messages
    book, emptied = state
    at, of, passive, prices = printed
    markets, rows = len(book), len(ts)
    bids, hits = np.zeros((rows, 2), np.int64), np.zeros(prices.shape, np.bool_)
    best, last, invalid = np.zeros((markets, 2), np.int64), np.full(markets, -1, np.int64), np.zeros(markets, np.bool_)
    row, word, trade, unchanged = 0, 0, 0, -1
    while row < rows or trade < len(at):
        if row < rows and (trade == len(at) or ts[row] <= at[trade]):
            t = ticker[row]
            if last[t] >= 0 and ts[last[t]] == ts[row]:
                bids[last[t], 0] = bids[last[t], 1] = 0
            last[t] = row
            while word < end[row]:
                kind, _, s, price, lots = unpack(words[word])
                word += 1
                if (book[t, s, price] == lots) if kind == LEVEL else (invalid[t] == (kind == INVALID)):
                    unchanged = row if unchanged < 0 else unchanged
                if kind != LEVEL:
                    invalid[t] = kind == INVALID
                    continue
                if lots == 0:
                    emptied[t, s, price] = ts[row]
                elif price > best[t, s]:
                    best[t, s] = price
                book[t, s, price] = lots
                while best[t, s] > 0 and book[t, s, best[t, s]] == 0:
                    best[t, s] -= 1
            if not invalid[t]:
                bids[row, 0], bids[row, 1] = best[t, 0], best[t, 1]
            row += 1
        else:
            t, s = of[trade], passive[trade]
            for k in range(2):
                p = prices[trade, k]
                was_shown = emptied[t, s, p] > 0 and emptied[t, s, p] >= at[trade] - window
                hits[trade, k] = book[t, s, p] > 0 or was_shown
            trade += 1
    return bids, unchanged, hits


def _check_book(content: Content, fold: BookFold, report: Report) -> None:
    """Check that no book is crossed or locked. Warn about markets without book rows and rows outside of the episode's window."""
    book, tickers = content.book, content.metadata.tickers
    report.counts.update({"book rows": len(book.ts), "level changes": len(book.words)})
    if fold.unchanged >= 0:
        message = f"{ORDERBOOK}: row {fold.unchanged}: a word changes nothing; give only the levels that a message changes"
        report.add(ERROR, "book", message, ORDERBOOK, fold.unchanged)
    total, counted = fold.bids.sum(axis=1), (fold.bids > 0).all(axis=1)
    for wrong, problem in (
        (total > DOLLAR, "crosses: YES bid {0:g} and NO bid {1:g} cents are more than a dollar"),
        (total == DOLLAR, "is locked: its YES and NO bids, {0:g} and {1:g} cents, add up to a dollar, which is invalid"),
    ):
        if (row := first_true(wrong & counted)) >= 0:
            best = problem.format(*(fold.bids[row] / CENT))
            message = f"the book of {tickers[book.ticker[row]]} {best}; {int((wrong & counted).sum())} such instants"
            report.add(ERROR, "crossing", f"{ORDERBOOK}: row {row}: {message}", ORDERBOOK, row)
    counts = np.bincount(book.ticker, minlength=len(tickers))
    if empty := [ticker for ticker, count in zip(tickers, counts, strict=True) if not count]:
        report.add(WARNING, "coverage", f"{len(empty)} of {len(tickers)} markets have no book row: {_join_names(empty)}", ORDERBOOK)
    _check_window(ORDERBOOK, "book rows", book.ts, content.metadata, report)


def _check_window(file: str, kind: str, ts: np.ndarray, metadata: Metadata, report: Report) -> None:
    """Warn about rows outside of the episode's window. kind: what the rows are, for the message. ts: their times."""
    outside = (ts < metadata.start) | (ts > metadata.end)
    if (row := first_true(outside)) >= 0:
        message = f"{int(outside.sum())} {kind} lie outside start and end, the first at {format_time(int(ts[row]))}"
        report.add(WARNING, "coverage", message, file, row)


def _check_gaps(content: Content, report: Report) -> None:
    """Check that the markets with gaps in the metadata are those with invalid books, and that each of them has a book outside of them."""
    metadata = content.metadata
    kind, ticker, *_ = unpack(content.book.words)
    marked = {metadata.tickers[code] for code in np.unique(ticker[kind == INVALID])}
    shown = {metadata.tickers[code] for code in np.unique(ticker[kind != INVALID])}
    for gap in metadata.gaps:
        if gap.ticker in marked - shown:
            message = f"{gap.ticker} has no book, only a gap: {gap.cause}; leave it out, or correct its frames and build it again"
            report.add(ERROR, "gaps", f"reading {METADATA}: {message}", METADATA)
    stated = {gap.ticker for gap in metadata.gaps}
    report.counts["gaps"] = len(metadata.gaps)
    if unmarked := sorted(stated - marked):
        report.add(WARNING, "gaps", f"gaps are stated, but the books are never invalid: {_join_names(unmarked)}", ORDERBOOK)
    if unstated := sorted(marked - stated):
        report.add(WARNING, "gaps", f"books become invalid, but no gap is stated in metadata.json: {_join_names(unstated)}", METADATA)


def _check_trades(content: Content, fold: BookFold, report: Report) -> None:
    """Check that trades hit displayed levels of the book, at prices of YES that are on the market's grid, before the settlement."""
    trades, tickers = content.trades, content.metadata.tickers
    report.counts["trades"] = len(trades.ts)
    _check_window(TRADES, "trades", trades.ts, content.metadata, report)
    hit, flipped = fold.hits.T
    if (row := first_true(~hit)) >= 0:
        share = f"{int(hit.sum()):,} of {len(hit):,} trades ({hit.mean():.1%}) hit a displayed level"
        side, price = (column[row] for column in trades.passive)
        first = f"row {row}: {tickers[trades.ticker[row]]}, {('YES', 'NO')[side]} bid at {price / CENT:g} cents"
        report.add(WARNING, "trades", f"{share}; the first that does not is {first}", TRADES, row)
    by_no = trades.taker == 1
    if flipped[by_no].sum() > hit[by_no].sum():
        counts = f"{int(flipped[by_no].sum()):,} of {int(by_no.sum()):,} trades of NO takers fit at the other side's price"
        report.add(WARNING, "trades", f"{counts}, {int(hit[by_no].sum()):,} as given; is the price that of YES?", TRADES)
    allowed = np.stack([_allowed_prices(market.price_grids()) for market in content.metadata.markets])
    settled = np.array([s.at if s.is_known else np.iinfo(np.int64).max for s in content.settlements], np.int64)
    for wrong, problem in (
        (~allowed[trades.ticker, trades.price], "are off their market's price grid"),
        (trades.ts > settled[trades.ticker], "are later than their market's settlement"),
    ):
        if (row := first_true(wrong)) >= 0:
            first = f"row {row}: {tickers[trades.ticker[row]]} at {trades.price[row] / CENT:g} cents"
            report.add(WARNING, "trades", f"{int(wrong.sum())} trades {problem}, the first is {first}", TRADES, row)
