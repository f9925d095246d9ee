"""Short markets and scripted agents for tests of agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.replay import CENT, Agent, AgentContext, Backtest, BacktestSettings, EpisodeInfo, Limits, run
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape
from bellwether.replay.units import CONTRACT, DOLLAR, MICROS, MILL, NO, SECOND, YES
from tests.unit.replay.results import tapes
from tests.unit.replay.results.tapes import Event


def tape(*events: Event, **given: Any) -> Tape:
    """Build a tape of (seconds, kind, ticker, side, price in $0.0001, value)."""
    return tapes.tape(*((at, kind, ticker, side, price // MILL, value) for at, kind, ticker, side, price, value in events), **given)


def book(at: float, bid: int, ask: int, ticker: int = 0, size: int = 1000) -> list[Event]:
    """Return events of a new bid and ask in $0.0001."""
    return [(at, LEVEL, ticker, YES, bid, size), (at, LEVEL, ticker, NO, DOLLAR - ask, size)]


RULES = "kalshi-2026-08-30"
#: YES bid 45 and ask 48, 100 and 50 contracts.
BOOK: list[Event] = [
    (0, LEVEL, 0, YES, 45 * CENT, 100 * CONTRACT),
    (0, LEVEL, 0, YES, 40 * CENT, 200 * CONTRACT),
    (0, LEVEL, 0, NO, 52 * CENT, 50 * CONTRACT),
    (0, LEVEL, 0, NO, 50 * CENT, 150 * CONTRACT),
]
#: Closes after 600 seconds; YES pays.
END: list[Event] = [(600, CLOSE, 0, YES, 0, 0), (601, SETTLE, 0, YES, 0, MICROS)]
TRADE: Event = (90, PRINT, 0, YES, 45 * CENT, 130 * CONTRACT)


def market(*events: Event) -> Tape:
    """Return a tape of the opening book, these events, and the end."""
    return tape(*sorted([*BOOK, *events, *END], key=lambda event: event[0]), end=601)


def two_markets() -> Tape:
    """Return a tape of two markets with spreads of one and ten cents. Only the first has a book at once."""
    return tape(
        *book(0, 49 * CENT, 50 * CENT),
        *book(100, 30 * CENT, 40 * CENT, ticker=1),
        (600, CLOSE, 0, 0, 0, 0),
        (600, CLOSE, 1, 0, 0, 0),
        tickers=2,
        end=600,
    )


class Scripted(Agent):
    """Call a function at each decision."""

    def __init__(self, what: Callable[[AgentContext], Any]) -> None:
        self.what = what

    def act(self, ctx: AgentContext) -> Any:
        return self.what(ctx)


class CallRecorder(Agent):
    """Record calls in order."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        self.notes.append(("start", ctx.now_ns, episode.tickers))

    def act(self, ctx: AgentContext) -> None:
        self.notes.append(("act", ctx.step, ctx.now_ns // SECOND))

    def end(self, ctx: AgentContext) -> None:
        self.notes.append(("end", ctx.cash))


def settings(*, decision: float = 60.0, **changed: Any) -> BacktestSettings:
    """Return settings with a decision per minute, a thousand dollars and a single run. decision: limit of a decision, seconds."""
    changed.setdefault("limits", Limits(decision=decision))
    return BacktestSettings(**{"rules": RULES, "cadence": 60 * SECOND, "bankroll": 1000 * MICROS, "queues": 0, **changed})


def traded(what: Callable[[AgentContext], Any], *events: Event, **changed: Any) -> Backtest:
    """Backtest a function on the market. Errors of the function fail the test."""
    errors: list[BaseException] = []

    def watched(ctx: AgentContext) -> Any:
        try:
            return what(ctx)
        except BaseException as error:
            errors.append(error)
            raise

    backtest = run(market(*events), Scripted(watched), settings(**changed))
    if errors:
        raise errors[0]
    return backtest


def at_step(what: Callable[[AgentContext], Any], step: int = 0) -> Callable[[AgentContext], None]:
    """Call the function at one decision only."""

    def act(ctx: AgentContext) -> None:
        if ctx.step == step:
            what(ctx)

    return act
