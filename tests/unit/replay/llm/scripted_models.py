"""An episode for tests of the LLM agent, and scripted models behind the real client and journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from bellwether.journal.journal import Journal
from bellwether.journal.values import CostSource, Outcome, Reply, Usage
from bellwether.models.client import Limits, ModelClient, Retry
from bellwether.models.keys import Endpoint
from bellwether.models.response import AttemptResult, read_reply
from bellwether.models.transport import ModelCall
from bellwether.replay import Backtest, BacktestSettings, run
from bellwether.replay.agents.llm import LLMAgent
from bellwether.replay.agents.llm.trajectory import Head, Round, ToolCall
from bellwether.replay.preparation import Prepared, prepare
from bellwether.replay.rules import fee_terms, rule_set
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape, pack
from bellwether.replay.units import CONTRACT, MICROS, MINUTE, NO, SECOND, YES
from tests.unit.models.scripted_client import FakeWire
from tests.unit.replay.results.tapes import TENTHS

RULES = "kalshi-2025-07-01"
START = 1_768_928_400 * SECOND
TICKERS = ("KX-A", "KX-B")
#: Decisions of an episode: one per minute.
STEPS = 40
#: Actual and maximum cost of a call in micro-dollars.
COST, MOST = 20, 100

Says = Callable[[str, int], AttemptResult]
ToolCalls = Sequence[tuple[str, Any]]


def tape(steps: int = STEPS, digest: str = "d" * 64) -> Tape:
    """Return two markets with wandering midpoints. Every minute the book moves and a trade occurs at its touch. A pays, B does not."""
    rng = np.random.default_rng(5)
    ts: list[int] = []
    words: list[int] = []
    middles, shown = [500, 300], [dict[tuple[int, int], int](), dict[tuple[int, int], int]()]
    for minute in range(steps):
        now = START + minute * MINUTE
        for code in range(len(TICKERS)):
            if minute:
                side = int(rng.integers(2))
                ts.append(now - SECOND)
                words.append(pack(PRINT, code, side, max(price for at, price in shown[code] if at == side), 5 * CONTRACT))
            middles[code] = int(np.clip(middles[code] + 10 * rng.integers(-2, 3), 100, 900))
            wanted = {(side, _price(middles[code], side) - 20 - 10 * level): 20 * CONTRACT for side in (YES, NO) for level in range(3)}
            gone = [key for key in shown[code] if key not in wanted]
            for (side, price), lots in [*((key, 0) for key in gone), *((key, wanted[key]) for key in wanted if key not in shown[code])]:
                ts.append(now)
                words.append(pack(LEVEL, code, side, price, lots))
            shown[code] = wanted
    order = np.argsort(np.array(ts), kind="stable")
    end = START + steps * MINUTE
    closing = [pack(CLOSE, code, 0, 0, 0) for code in range(2)] + [pack(SETTLE, code, 0, 0, MICROS * (code == 0)) for code in range(2)]
    fees = np.stack([fee_terms(rule_set(RULES), {"type": "quadratic_with_maker_fees"})] * 2)
    return Tape(
        np.concatenate([np.array(ts)[order], [end - 1] * 2, [end] * 2]),
        np.concatenate([np.array(words)[order], closing]),
        TICKERS,
        START,
        end,
        levels=(TENTHS,) * len(TICKERS),
        fees=fees,
        digest=digest,
    )


def _price(middle: int, side: int) -> int:
    return middle if side == YES else 1000 - middle


def episode(steps: int = STEPS, titles: Mapping[str, str] | None = None, **changes: Any) -> Prepared:
    """Return the tape as an episode. `titles`: titles by ticker."""
    prepared = prepare(tape(steps), RULES)
    markets = tuple(replace(one, title=(titles or {}).get(one.ticker, ""), close_ns=prepared.tape.end) for one in prepared.info.markets)
    return replace(prepared, info=replace(prepared.info, id="rain", markets=markets), **changes)


def settings(**changes: Any) -> BacktestSettings:
    return BacktestSettings(**{"cadence": MINUTE, "bankroll": 1000 * MICROS, **changes})


# --- what models say ---------------------------------------------------------------------------------------------------


def answer(calls: ToolCalls = (), content: str | None = None, finish: str | None = None, **message: Any) -> AttemptResult:
    """Return a reply that calls tools. Arguments that are no text are written as JSON. `finish`: finish reason, if not the usual one."""
    called = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": text if isinstance(text, str) else json.dumps(text)},
        }
        for place, (name, text) in enumerate(calls)
    ]
    whole = {"role": "assistant", "content": content, **({"tool_calls": called} if called else {}), **message}
    finish = finish or ("tool_calls" if called else "stop")
    body = json.dumps({"choices": [{"message": whole, "finish_reason": finish}]}).encode()
    usage = Usage(100, 20, 0, COST, CostSource.PROVIDER)
    reply = Reply(body, content, message.get("reasoning_content"), finish, usage, 200, "req", 900)
    return AttemptResult(Outcome.OK, reply, tool_calls=read_reply(body).tool_calls)


def refusal(outcome: Outcome = Outcome.REFUSAL) -> AttemptResult:
    """Return a reply without an answer. A timeout is retried; a refusal is final."""
    usage = Usage(100, 5, 0, COST, CostSource.PROVIDER) if outcome is Outcome.REFUSAL else Usage()
    return AttemptResult(outcome, Reply(usage=usage, http_status=200 if outcome is Outcome.REFUSAL else None), f"it was {outcome.value}")


def trading(state: str, number: int) -> AttemptResult:
    """Read the market, place an order that depends on the state alone (some cross, some rest, some are cancelled later), and end the step."""
    draw = int.from_bytes(hashlib.sha256(state.encode()).digest()[:8])
    if number == 0:
        return answer([("get_markets", {}), ("get_resting_orders", {})])
    if number == 2 or draw % 3 == 0:
        return answer([("done", {"note": "enough"})])
    order = {
        "ticker": TICKERS[draw % 2],
        "side": ("yes", "no")[draw // 2 % 2],
        "action": ("buy", "buy", "sell")[draw // 4 % 3],
        "count": 1 + draw // 16 % 5,
        "price_cents": 20 + draw // 128 % 60,
    }
    calls: list[tuple[str, Any]] = [("place_order", order)]
    return answer(calls + ([("cancel_order", {"order_id": draw // 2**20 % 8})] if draw % 5 == 0 else []))


class Scripted:
    """Source of the agent's client. The transport answers with `says`, given the state and the number of the round.

    `sent`: number of requests sent so far by all clients.
    """

    def __init__(self, journal: Path, says: Says = trading, *, run: str = "run", dollars: Decimal | None = None) -> None:
        self._url, self._says, self._run, self._limits = f"sqlite:///{journal}", says, run, Limits(dollars=dollars)
        self.wires: list[FakeWire] = []

    @property
    def calls(self) -> list[ModelCall]:
        return [call for wire in self.wires for call in wire.calls]

    @property
    def sent(self) -> int:
        return len(self.calls)

    def _heard(self, call: ModelCall) -> AttemptResult:
        state = next(str(message["content"]) for message in call.messages if message["role"] == "user")
        return self._says(state, sum(message["role"] == "assistant" for message in call.messages))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        self.wires.append(FakeWire(self._heard))
        with Journal(self._url) as journal:
            model_client = ModelClient(
                journal,
                endpoint=lambda model: Endpoint(None, "sk-secret"),
                run=self._run,
                limits=self._limits,
                retry=Retry(base=0.001, cap=0.002),
                wire=self.wires[-1],
                most_cost=lambda model, messages, parameters: MOST,
            )
            async with model_client as client:
                yield client


def trader(models: Scripted, file: Path, **params: Any) -> LLMAgent:
    agent = LLMAgent(**{"model": "sandbox-calibrated", "trajectory": file, **params})
    agent.models = models
    return agent


def trade(models: Scripted, file: Path, source: Prepared | None = None, **params: Any) -> Backtest:
    """Run the agent once, with its trajectory in `file`."""
    return run(source or episode(), trader(models, file, **params), settings())


# --- trajectories ------------------------------------------------------------------------------------------------------

HEAD = Head(run={"episode": "E"}, cadence=300, rounds=3, prompt="You trade.", tools=[{"type": "function"}])


def played(step: int, **changes: Any) -> Round:
    call = ToolCall(id="c1", name="done", arguments='{"note": "é"}', result='{"ok": true}', status="ok")
    return Round(
        **{
            "step": step,
            "ts": 1_768_928_400_000_000_001 + step,
            "request": f"{step:064x}",
            "state": f"Time: {step}\nCash: $5",
            "outcome": "ok",
            "message": {"role": "assistant", "content": None},
            "calls": [call],
            "ended": "done",
            "key": "k" * 64,
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "cost_microdollars": 30,
            **changes,
        }
    )
