"""The file of a new agent and the test of it, as `bellwether agents new` writes them."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from string import Template

from bellwether.errors import ConfigError
from bellwether.files import atomic_file

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
#: Names that the files use themselves.
_TAKEN = ("Agent", "AgentContext", "BacktestSettings", "EpisodeInfo", "Market", "Tape")

_AGENT = Template('''\
"""$title: an agent that trades recorded episodes.

    bellwether backtest --agent $file --episode ID
    bellwether backtest --agent $file --param size=20 --episode ID --html sheets
"""

from __future__ import annotations

from bellwether.replay import Agent, AgentContext, EpisodeInfo, Market, cents, contracts


class $cls(Agent):
    """Joins the best bid for YES wherever the spread is wide, and holds what it buys until the market settles.

    size: contracts of an order. spread_cents: the least spread at which it bids. max_position: contracts of a market that it holds at most.
    """

    # Version of the interface: prices are integers of $$0.0001.
    api = 3

    def __init__(self, *, size: float = 10, spread_cents: float = 2, max_position: float = 50) -> None:
        # Parameters are kept in the units of the simulator: sizes in lots (0.01 contract), prices in $$0.0001.
        self._size = contracts(size, "size")
        self._spread = cents(spread_cents, "spread_cents")
        self._most = contracts(max_position, "max_position")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Called once, before the first decision: the state of a run is set up here, not in `__init__`."""
        self._decisions = 0

    def act(self, ctx: AgentContext) -> None:
        """Called at each decision: look at the markets, send orders through `ctx`."""
        self._decisions += 1
        for market in ctx.markets():
            # `quote` keeps an order that already rests at this price, so that it does not lose its place in the queue; None takes it away.
            ctx.quote(market.ticker, self._bid(market), None, self._size)

    def _bid(self, market: Market) -> int | None:
        """The price to bid for YES, $$0.0001; None for no bid."""
        if not market.is_active or market.spread is None or market.spread < self._spread:
            return None
        if market.yes_position + self._size > self._most:
            return None
        return market.yes_bid
''')

_TEST = Template('''\
"""$cls on a market made by hand: `python -m pytest $test`."""

from __future__ import annotations

import numpy as np
from $module import $cls

from bellwether.replay import CONTRACT, MICROS, MINUTE, NO, SECOND, YES, Agent, Backtest, BacktestSettings, run
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape, pack

#: (seconds, what, side, price in cents, lots). YES is bid at 45 cents and offered at 48; 150 contracts trade against the bid; YES pays a dollar.
EVENTS = [
    (0, LEVEL, YES, 45, 100 * CONTRACT),
    (0, LEVEL, NO, 52, 100 * CONTRACT),
    (90, PRINT, YES, 45, 150 * CONTRACT),
    (600, CLOSE, YES, 0, 0),
    (601, SETTLE, YES, 0, MICROS),
]


def traded(agent: Agent) -> Backtest:
    """What comes of the agent, which decides every minute."""
    ts = np.array([event[0] * SECOND for event in EVENTS], np.int64)
    words = np.array([pack(what, 0, side, price, value) for _, what, side, price, value in EVENTS], np.int64)
    tape = Tape(ts, words, ("MARKET",), 0, 601 * SECOND)
    return run(tape, agent, BacktestSettings(rules="kalshi-2026-08-30", cadence=MINUTE))


def test_it_is_filled_once_the_queue_ahead_of_it_has_traded() -> None:
    backtest = traded($cls(size=10))
    assert backtest.failure is None
    # 10 contracts bought at 45 cents, without fees, pay 10 dollars.
    assert backtest.outcome.pnl[0] == 5_500_000


def test_it_does_not_bid_into_a_narrow_spread() -> None:
    assert len(traded($cls(spread_cents=4)).outcome.orders) == 0
''')


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The files of a new agent."""

    agent: Path
    test: Path


def write_agent(name: str, to: Path | None = None) -> AgentFiles:
    """Write an agent called `name` (`my-maker`, `my_maker` or `MyMaker`) and its test into a file and one next to it.

    to: the agent's file; `my_maker.py` in the working directory when left out. Raises `ConfigError` for a name that cannot be a class's, a file
    that Python could not import, and files that are there.
    """
    words = _split_name(name)
    cls = "".join(word[:1].upper() + word[1:] for word in words)
    if cls in _TAKEN:
        raise ConfigError(f"writing an agent: {name!r:.60} is a name that its file uses itself; choose another")
    path = (Path("_".join(words).lower() + ".py") if to is None else to).absolute()
    test = path.with_name(f"test_{path.name}")
    _check_file(path, test)
    values = {"cls": cls, "title": " ".join(words), "file": path.name, "module": path.stem, "test": test.name}
    # The test first: where its writing fails, no agent without a test is left that would have to be removed to try again.
    for target, text in ((test, _TEST), (path, _AGENT)):
        with atomic_file(target) as draft:
            draft.write_text(text.substitute(values), encoding="utf-8")
    return AgentFiles(path, test)


def _split_name(name: str) -> list[str]:
    words = _WORDS.findall(name)
    if not _NAME.fullmatch(name) or not words:
        raise ConfigError(
            f"writing an agent: its name is {name!r:.60}; letters and digits, words joined by hyphens, such as my-maker, make a name"
        )
    return words


def _check_file(path: Path, test: Path) -> None:
    stem = path.stem
    if path.suffix != ".py" or not stem.isidentifier() or keyword.iskeyword(stem):
        raise ConfigError(f"writing an agent: {path.name!r:.80} is no module of Python; name one such as my_maker.py with --to")
    for file in (path, test):
        if file.exists() or file.is_symlink():
            raise ConfigError(f"writing an agent: {file} is there already; name another file with --to")
    if stem in sys.stdlib_module_names or find_spec(stem) is not None:
        raise ConfigError(f"writing an agent: {path.name} would hide the module {stem!r}, which is installed; name another file with --to")
