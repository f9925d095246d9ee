"""Files that `bellwether agents new` writes: an agent and its test, from templates."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template

from bellwether.errors import ConfigError
from bellwether.files import atomic_file

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
#: Names used by the generated files.
_TAKEN = ("Agent", "AgentContext", "BacktestSettings", "EpisodeInfo", "Market", "Tape")

_AGENT = Template('''\
"""$title: an agent that trades recorded episodes.

    bellwether backtest --agent $file --episode ID
    bellwether backtest --agent $file --param size=20 --episode ID --html sheets
"""

from __future__ import annotations

from bellwether.replay import Agent, AgentContext, EpisodeInfo, Market, cents, contracts


class $cls(Agent):
    """Joins the best bid for YES in markets with a wide spread, and holds its position until settlement.

    size: contracts of an order. spread_cents: minimum spread. max_position: maximum contracts per market.
    """

    def __init__(self, *, size: float = 10, spread_cents: float = 2, max_position: float = 50) -> None:
        # Convert to the units of the simulator: sizes in lots (0.01 contract), prices in $$0.0001.
        self._size = contracts(size, "size")
        self._spread = cents(spread_cents, "spread_cents")
        self._most = contracts(max_position, "max_position")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Initialize the state of a run. Called once, before the first decision."""
        self._decisions = 0

    def act(self, ctx: AgentContext) -> None:
        """Make a decision: read the markets, and send orders through `ctx`."""
        self._decisions += 1
        for market in ctx.markets():
            # `quote` keeps an order that already rests at this price, with its queue position. A bid of None cancels it.
            ctx.quote(market.ticker, self._bid(market), None, self._size)

    def _bid(self, market: Market) -> int | None:
        """Return the bid price for YES, $$0.0001; None for no bid."""
        if not market.is_active or market.spread is None or market.spread < self._spread:
            return None
        if market.yes_position + self._size > self._most:
            return None
        return market.yes_bid
''')

_TEST = Template('''\
"""Tests of $cls on a hand-written tape: `python -m pytest $test`."""

from __future__ import annotations

import numpy as np
from $module import $cls

from bellwether.replay import CONTRACT, MICROS, MINUTE, NO, SECOND, YES, Agent, Backtest, BacktestSettings, run
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape, pack

#: (seconds, kind, side, price in cents, lots). YES is quoted 45 / 48 cents; 150 contracts trade against the bid; YES pays a dollar.
EVENTS = [
    (0, LEVEL, YES, 45, 100 * CONTRACT),
    (0, LEVEL, NO, 52, 100 * CONTRACT),
    (90, PRINT, YES, 45, 150 * CONTRACT),
    (600, CLOSE, YES, 0, 0),
    (601, SETTLE, YES, 0, MICROS),
]


def traded(agent: Agent) -> Backtest:
    """Run the agent with a decision every minute."""
    ts = np.array([event[0] * SECOND for event in EVENTS], np.int64)
    words = np.array([pack(what, 0, side, price, value) for _, what, side, price, value in EVENTS], np.int64)
    tape = Tape(ts, words, ("MARKET",), 0, 601 * SECOND)
    return run(tape, agent, BacktestSettings(rules="kalshi-2026-08-30", cadence=MINUTE))


def test_it_is_filled_once_the_queue_ahead_of_it_has_traded() -> None:
    backtest = traded($cls(size=10))
    assert backtest.failure is None
    # 10 contracts cost 45 cents each, without fees, and pay a dollar each.
    assert backtest.outcome.pnl == 5_500_000


def test_it_does_not_bid_into_a_narrow_spread() -> None:
    assert len(traded($cls(spread_cents=4)).outcome.orders) == 0
''')


def write_agent(name: str) -> tuple[Path, Path]:
    """Write a new agent and its test into the working directory. Returns the paths of both files, such as `my_maker.py` and `test_my_maker.py`.

    Args:
        name: Name of the agent, such as `my-maker`, `my_maker` or `MyMaker`.

    Raises:
        ConfigError: The name is not a valid class name, Python cannot import the file, or a file exists.
    """
    words = _split_name(name)
    cls = "".join(word[:1].upper() + word[1:] for word in words)
    if cls in _TAKEN:
        raise ConfigError(f"writing an agent: the name {name!r:.60} is used by the generated file; choose another")
    path = Path("_".join(words).lower() + ".py").absolute()
    test = path.with_name(f"test_{path.name}")
    _check_file(path, test)
    values = {"cls": cls, "title": " ".join(words), "file": path.name, "module": path.stem, "test": test.name}
    # Write the test first: if that fails, no agent file blocks the next attempt.
    for target, text in ((test, _TEST), (path, _AGENT)):
        with atomic_file(target) as draft:
            draft.write_text(text.substitute(values), encoding="utf-8")
    return path, test


def _split_name(name: str) -> list[str]:
    words = _WORDS.findall(name)
    if not _NAME.fullmatch(name) or not words:
        raise ConfigError(
            f"writing an agent: the name {name!r:.60} is invalid; use letters and digits, with hyphens between words, such as my-maker"
        )
    return words


def _check_file(path: Path, test: Path) -> None:
    stem = path.stem
    if keyword.iskeyword(stem):
        raise ConfigError(f"writing an agent: {stem!r} is a keyword of Python; choose another name")
    for file in (path, test):
        if file.exists() or file.is_symlink():
            raise ConfigError(f"writing an agent: {file} already exists; choose another name")
    if stem in sys.stdlib_module_names or find_spec(stem) is not None:
        raise ConfigError(f"writing an agent: {path.name} would hide the installed module {stem!r}; choose another name")
