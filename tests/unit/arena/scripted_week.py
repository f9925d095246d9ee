"""A week of three agents with a scripted provider, for tests of exactly-once decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bellwether.arena.account import Account
from bellwether.arena.decision import Decision
from bellwether.arena.execution import MarketData
from bellwether.arena.identity import AgentKey, DecisionKey
from bellwether.arena.market import Quote
from bellwether.arena.methodology import Methodology
from bellwether.arena.prompt import build_messages
from bellwether.arena.records import DecisionPlan
from bellwether.arena.universe import build_universe
from bellwether.arena.weekly.decisions import DecisionOutcome, decide_all
from bellwether.arena.weekly.model_calls import Task
from bellwether.errors import BellwetherError
from bellwether.forecasting.prompt import Message
from bellwether.journal.journal import Attempt, Journal
from bellwether.journal.records import Records
from bellwether.journal.values import Answered, CostSource, Failed, Reply, Request, Usage
from bellwether.models.client import Answer, NoAnswer
from bellwether.units import SharePrice
from tests.unit.arena.world import COHORT, NOW, V1, agent, binary, buy_trade

TIMEOUT = timedelta(minutes=5)
DEADLINE = NOW + timedelta(hours=47)
MARKETS = {name: binary(name, "0.4") for name in ("m", "n")}

BET = '{"action": "BET", "bets": [{"market_id": "m", "side": "YES", "amount": 500, "probability": 0.6}, {"market_id": "n", "side": "NO", "amount": 60}], "reasoning": "r"}'
SELL = '{"action": "SELL", "sells": [{"position_id": "2026-03-01/beta/2026-03-01/1", "percentage": 50}], "reasoning": "r"}'
#: Scripted answers by family, one per sample.
ANSWERS: Mapping[str, Sequence[str]] = {"acme": (BET,), "beta": ("no idea", SELL), "zeta": ("{", "}")}


#: Families of the killed runs: one bets; the other needs two answers and then sells.
KILLED = ("acme", "beta")


class Provider:
    """Return scripted answers through the journal and record every request sent. `fails`: exception to raise or result to return, by
    family.
    """

    def __init__(self, journal: Journal, saw: Callable[[str], object], answers: Mapping[str, Sequence[str]] = ANSWERS) -> None:
        self.journal, self.saw, self.answers = journal, saw, answers
        self.fails: dict[str, Any] = {}

    def __call__(self, task: Task, plan: DecisionPlan, messages: Sequence[Message], sample: int) -> Answer | NoAnswer:
        model, decision_id = plan.model, task.key.decision_id
        request = Request(model, messages, "arena/decisions", {"temperature": 0}, decision_id, sample)
        attempt = self.journal.begin(request, timeout=TIMEOUT, estimate=100)
        if isinstance(attempt, Answered):
            return Answer(attempt.key, attempt.reply, spent=attempt.reply.usage, reused=True)
        if isinstance(attempt, Failed):
            return NoAnswer(attempt.key, attempt.outcome, attempt.reason, 1, final=True)
        if not isinstance(attempt, Attempt):
            raise BellwetherError(f"{decision_id}: {attempt}")
        self.saw(f"asked {model} {sample}")
        if model in self.fails:
            failure = self.fails[model]
            attempt.abandon("failed")
            if isinstance(failure, Exception):
                raise failure
            return NoAnswer(request.key, failure, "the provider's words", 1)
        content = self.answers[model][sample]
        reply = Reply(content.encode(), content, usage=Usage(10, 10, 0, 70, CostSource.PROVIDER))
        answered = attempt.answer(reply)
        self.saw(f"stored {model} {sample}")
        return Answer(answered.key, reply, spent=reply.usage)


def fetch_quotes(decision: Decision) -> MarketData:
    """Return the same quotes for every decision."""
    return MarketData(MARKETS, {name: {0: Quote(SharePrice(400_000), at=NOW)} for name in MARKETS}, NOW)


def tasks(rules: Methodology = V1, families: Sequence[str] = tuple(ANSWERS)) -> list[Task]:
    """Return the decisions of the cohort. `beta` has an open position."""
    agents = []
    for place, family in enumerate(families, start=1):
        key = DecisionKey(AgentKey(COHORT, family), COHORT + timedelta(days=7))
        account = Account.of(agent(family=family))
        if family == "beta":
            first = f"{key.agent.agent_id}/{COHORT}/1"
            account.book(buy_trade("100", "40", agent_id=key.agent.agent_id, trade_id=first, position_id=first))

        def messages(account: Account = account, key: DecisionKey = key) -> list[Message]:
            return build_messages(rules, account, list(MARKETS.values()), today=key.week, week=2)

        agents.append(Task(key, family, rules, account, messages, fetch_quotes, DEADLINE, build_universe(list(MARKETS.values())), place))
    return agents


@dataclass
class Run:
    """A run of the week: its records, its provider and the time."""

    records: Records
    ask: Any
    now: datetime

    def decide(self, tasks: Sequence[Task]) -> list[DecisionOutcome]:
        return decide_all(tasks, self.records, self.ask, lambda: self.now)


def make_run(journal: Journal, saw: Callable[[str], object] = lambda words: None, now: datetime = NOW, run: str = "r") -> Run:
    return Run(Records(journal, run), Provider(journal, saw), now)
