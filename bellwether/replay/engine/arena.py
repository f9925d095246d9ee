"""Layout of an account's state: one flat int64 array of a header, a row per ticker, the books, what own fills took from them, and marks:
how many own orders rest at a level, and one more where own fills took from it. A level without a mark concerns nobody.

There are up to three accounts: of the chosen queue model, and of those that bound it. Each is a replay of its own to which the same calls are made.

One array is handed to compiled code in a tenth of a microsecond; a dozen would take longer than an order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bellwether.replay.engine.codes import Queue, TickerStatus
from bellwether.replay.engine.settings import Settings
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape.layout import FEE_COLS, PRICES, UNIT_COLS, Tape

#: A time that never comes, ns.
NEVER = 2**63 - 1

#: Header. Clock: index of the next event, engine time, time of the decision, decisions so far, next row of the schedule, last time of the tape.
H_CURSOR, H_TIME, H_NOW, H_STEP, H_STOP, H_LAST, H_OVER = range(7)
#: Sizes: tickers, offsets of books, of what was taken, and of the scratch space of crossings.
H_TICKERS, H_BOOK, H_TAKEN, H_SCRATCH = range(7, 11)
#: Rows in use; messages under way are [M_HEAD, M_TAIL). FULL: an array must grow, ROOM: fills that must then fit.
H_ORDERS, H_FILLS, H_SAMPLES, H_M_HEAD, H_M_TAIL, H_FULL, H_ROOM = range(11, 18)
#: FLAGGED: some ticker awaits a crossing check. EXPIRY: earliest expiry, EXPIRY_AT its tape index or -1. REFUSED: orders above the limit.
H_FLAGGED, H_EXPIRY, H_EXPIRY_AT, H_REFUSED = range(18, 22)
#: Money, total reserve; results of a valuation.
H_CASH, H_FEES, H_REALISED, H_RESERVED, H_EQUITY, H_MID_EQUITY = range(22, 28)
#: Rules and settings as integers.
H_CONSUME, H_REMAINDER_RESTS, H_THROUGH, H_CROSSING, H_BEHIND_OWN, H_NET, H_COLLATERAL, H_FIFTY, H_TRADE_AFTER = range(36, 45)
H_CANONICAL_SELL, H_MARKET_GRID, H_SELF_TRADE = range(45, 48)
H_FINAL_CASH, H_LISTED, H_QUEUE, H_CANCEL_MAKER, H_TAKER_ONLY, H_ORDER_LATENCY, H_DATA_LATENCY = range(54, 61)
#: SWEEP: an order that was filled or refused cash is still in its list. MARKS: offset of the marks of levels.
H_MAX_ORDERS, H_MAX_RESTING, H_SWEEP, H_MARKS, H_GTD_RESTS = range(61, 66)
#: BUDGET: how many orders quotes may still send or cancel. QUOTED: quotes of a batch that are done. ACCOUNTS: how many accounts have a state of their
#: own: the first alone until an order may rest, then all. BOUND_QUEUE: queue models of the second and the third.
H_BUDGET, H_QUOTED, H_ACCOUNTS, H_BOUND_QUEUE = range(66, 70)
#: WATCH: what else is a stop, bits of WATCH_*. TOLD: fills that were there at the last of these stops; FILLS_BEFORE, FILLS_THEN: at the decision
#: before the last one, and there. STIRRED: some own order may have changed in the instant under way.
H_WATCH, H_TOLD, H_FILLS_BEFORE, H_FILLS_THEN = range(71, 75)
#: EXPONENT of the queue model power.
H_EXPONENT = 75
#: Updates of orders are [U_HEAD, U_TAIL), those up to U_TOLD have been a stop; NOTED: orders looked at so far, of which OPEN are noted as open.
H_STIRRED, H_U_HEAD, H_U_TAIL, H_U_TOLD, H_NOTED, H_OPEN = range(76, 82)
#: What a compiled agent's callbacks are told: bits of which it has; of fills, updates (from U_HEAD on), trades and books the next of the batch under
#: way and where it ends; the number that the callback gets. AT_NEWS: the replay stands at news. BY_ROWS: decisions are at book rows. FAILED: a
#: callback raised an error.
H_CALLBACKS, H_FILLS_AT, H_FILLS_END, H_U_END, H_TRADES_AT, H_TRADES_END, H_BOOKS_AT = range(82, 89)
H_NEWS, H_AT_NEWS, H_BY_ROWS, H_FAILED = range(89, 93)
#: RESPONSE_LATENCY, ns. Ledgers are [L_HEAD, L_TAIL); what the last of them said.
H_RESPONSE_LATENCY, H_L_HEAD, H_L_TAIL, H_L_CASH, H_L_FILLS, H_L_REALISED, H_L_RESERVED = range(93, 100)
HEADER = 100
WATCH_FILLS, WATCH_ORDERS, WATCH_LATE = 1, 2, 4

#: Row of a ticker, two columns for its sides where there is a pair. BUSY: own orders, levels with own consumption, and NO_BOOK_YET: 0 means that
#: an event of the ticker concerns nobody. HEAD: best own order; TOP: its price, 0 for none. POSITION, BASIS: lots and micro-dollars.
#: TOLD: best prices that a compiled agent was last told, MOVED: they were others before.
#: QUOTE: the order that was last sent as a quote of a side, -1 for none. REALISED: P&L without fees, PAID: fees, micro-dollars.
K_STATUS, K_BUSY, K_BEST, K_HEAD, K_OWN, K_RESERVE, K_FLAG = 0, 1, 2, 4, 6, 8, 10
K_FEES, K_POSITION, K_BASIS = 11, 11 + FEE_COLS, 13 + FEE_COLS
K_TOP = 15 + FEE_COLS
K_QUOTE = 17 + FEE_COLS
K_REALISED, K_PAID = 19 + FEE_COLS, 20 + FEE_COLS
K_TOLD, K_MOVED = 21 + FEE_COLS, 23 + FEE_COLS
K_COLS = 40
NO_BOOK_YET = 1 << 40
#: The market's columns of `Tape.units`, at the end of its row.
K_UNITS = K_COLS - UNIT_COLS
K_MIN_LOTS, K_LOT_STEP, K_FEE_UNIT, K_BALANCE_UNIT, K_REBATE_UNIT, K_REBATE_ABOVE = range(K_UNITS, K_COLS)

#: Messages under way: what, the order or ticker, price, lots, time of arrival, tape index of arrival.
M_KIND, M_ORDER, M_PRICE, M_LOTS, M_TIME, M_AT = range(6)
M_COLS = 6
M_PLACE, M_CANCEL, M_AMEND, M_CANCEL_ALL = range(4)

#: The words that compiled code is handed for a replay: the address of the engine's entry, then address and shape of each array, four words each.
W_ENTRY = 0
W_TS, W_EVENT, W_GRID, W_SCHEDULE, W_CORES, W_ORDERS, W_FILLS, W_SAMPLES, W_MESSAGES, W_BATCH, W_UPDATES, W_NOTED, W_TRADES = range(
    1, 53, 4
)
W_SEEN, W_SEEN_ORDERS, W_LEDGERS, W_SERIES = range(53, 69, 4)
#: Address and length of a compiled strategy's parameters, and the addresses of its callbacks, in the order of `telling.ON_*`.
W_PARAMS, W_CALLBACKS = 69, 71
WORDS = 75


def new_cores(tape: Tape, rules: RuleSet, settings: Settings, bounds: Sequence[Queue] = ()) -> np.ndarray:
    """The states of the accounts before the first event, int64[1 + bounds, n]: the first is that of the settings, those of `bounds` are empty yet."""
    tickers = len(tape.tickers)
    books = tickers * 2 * PRICES
    book = HEADER + tickers * K_COLS
    cores = np.zeros((1 + len(bounds), book + 3 * books + PRICES), np.int64)
    core = cores[0]
    _set_rules(core, rules, settings)
    core[[H_TICKERS, H_BOOK, H_TAKEN, H_MARKS, H_SCRATCH]] = tickers, *range(book, len(core), books)[:4]
    core[[H_TIME, H_NOW]] = tape.start
    core[[H_EXPIRY, H_EXPIRY_AT]] = NEVER, -1
    core[H_BUDGET] = NEVER
    core[H_ACCOUNTS] = 1
    core[H_BOUND_QUEUE : H_BOUND_QUEUE + len(bounds)] = bounds
    core[H_CASH] = core[H_L_CASH] = settings.bankroll
    core[H_BOOKS_AT] = tickers
    rows = ticker_rows(core)
    rows[:, K_STATUS] = TickerStatus.NO_BOOK
    rows[:, K_BUSY] = NO_BOOK_YET
    rows[:, K_HEAD : K_HEAD + 2] = -1
    rows[:, K_FEES : K_FEES + FEE_COLS] = tape.fees
    rows[:, K_QUOTE : K_QUOTE + 2] = -1
    rows[:, K_UNITS : K_UNITS + UNIT_COLS] = tape.units if len(tape.units) else rules.units
    return cores


def _set_rules(core: np.ndarray, rules: RuleSet, settings: Settings) -> None:
    core[H_CONSUME] = rules.consume
    core[H_REMAINDER_RESTS], core[H_GTD_RESTS] = rules.remainder_rests, rules.gtd_rests
    core[H_THROUGH] = rules.through
    core[H_CROSSING] = rules.crossing
    core[H_BEHIND_OWN] = rules.join == "behind_own"
    core[H_NET] = rules.netting == "net"
    core[H_COLLATERAL] = rules.collateral
    core[H_FIFTY] = rules.mark_missing == "fifty"
    core[H_TRADE_AFTER] = rules.trade_after_settlement
    core[H_CANONICAL_SELL] = rules.maker_sell_price == "canonical"
    core[H_MARKET_GRID] = rules.grid == "market"
    core[H_SELF_TRADE] = rules.self_trade_allowed
    core[H_FINAL_CASH] = rules.final_curve == "cash"
    core[H_BY_ROWS] = rules.decisions == "book_rows"
    core[H_LISTED] = rules.observations == "frozen"
    core[H_QUEUE] = Queue[(settings.queue or rules.queue).upper()]
    core[H_EXPONENT] = settings.queue_exponent
    core[H_CANCEL_MAKER] = settings.self_trade == "cancel_maker"
    core[H_TAKER_ONLY] = settings.execution == "taker_only"
    core[H_ORDER_LATENCY], core[H_DATA_LATENCY] = settings.order_latency, settings.data_latency
    core[H_RESPONSE_LATENCY] = settings.response_latency
    core[H_WATCH] = WATCH_LATE if settings.answers_late else 0
    core[H_MAX_ORDERS], core[H_MAX_RESTING] = settings.max_orders, settings.max_resting


def ticker_rows(core: np.ndarray) -> np.ndarray:
    """View int64[T, K_COLS] of the tickers' rows."""
    return core[HEADER : core[H_BOOK]].reshape(-1, K_COLS)


def books(core: np.ndarray) -> np.ndarray:
    """View int64[T, 2, 1001] of the displayed sizes, in lots by ticker, side and price in mills."""
    return core[core[H_BOOK] : core[H_TAKEN]].reshape(-1, 2, PRICES)
