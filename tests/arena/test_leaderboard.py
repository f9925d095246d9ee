"""sql/arena/leaderboard.sql and sql/arena/releases.sql against the same tables counted row by row, on random facts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import polars as pl
import pytest

from bellwether.arena.lineup import releases
from bellwether.lake.sql import run_sql
from bellwether.tables import table
from bellwether.tables.arena import LEADERBOARD
from tests.arena.test_queries import _row as row_of

START = datetime(2026, 3, 1, tzinfo=UTC)
WEEKS = [date(2026, 3, 1) + timedelta(days=7 * number) for number in range(3)]
PRIMARIES = {"by return": "return", "by stated": "brier_stated", "by size": "brier_size"}
MEANS = ("scored", "stated", "brier_stated", "brier_size", "brier_price", "skill_price", "win_rate")
SCALE = Decimal("0.000001")

Rows = list[dict[str, Any]]


def dollars(micros: int) -> Decimal:
    return micros * SCALE


def random_facts(rng: Random) -> dict[str, Rows]:
    """Rows of every input, of agents that decided, traded and lost more or less; some without anything."""
    names = ("agents", "decisions", "refusals", "trades", "ledger", "positions", "portfolios", "scored")
    made: dict[str, Rows] = {name: [] for name in names}
    for methodology, reconstructed, family in product(PRIMARIES, (False, True), ("acme", "beta", "zeta", "twin")):
        cohorts = [week for week in WEEKS if rng.random() < 0.7]
        for week in cohorts:
            _agent(rng, made, f"{week}/{family} {methodology} {reconstructed}", methodology, reconstructed, family, week)
        if cohorts and rng.random() < 0.8:
            means = {name: rng.choice((None, 0.25, rng.random())) for name in MEANS[2:]}
            counts = {"scored": rng.randrange(9), "stated": rng.randrange(9)}
            made["scored"].append({"methodology": methodology, "reconstructed": reconstructed, "family": family, **counts, **means})
    # Every family has its means, of nothing where nothing was scored.
    known = {tuple(row.values())[:3] for row in made["scored"]}
    for agent in made["agents"]:
        key = (agent["methodology"], agent["reconstructed"], agent["family"])
        if key not in known:
            known.add(key)
            made["scored"].append({**dict(zip(("methodology", "reconstructed", "family"), key, strict=True)), "scored": 0, "stated": 0})
    return made


def _agent(rng: Random, made: dict[str, Rows], agent_id: str, methodology: str, reconstructed: bool, family: str, week: date) -> None:
    initial = rng.choice((10_000_000_000, 333_333_333, 1_000_000_001))
    about = {"methodology": methodology, "reconstructed": reconstructed, "family": family, "week": week}
    archived = START if rng.random() < 0.15 else None
    made["agents"].append({"agent_id": agent_id, **about, "initial_cash": dollars(initial), "archived_at": archived})
    for number in range(rng.randrange(4)):
        decision = f"{agent_id}/{week + timedelta(days=7 * number)}"
        state = rng.choice(("finished", "finished", "finished", "failed", "open"))
        action = rng.choice(("BET", "HOLD", "INVALID", None)) if state == "finished" else None
        cost = None if rng.random() < 0.05 else dollars(rng.randrange(10**7))
        made["decisions"].append({"decision_id": decision, "agent_id": agent_id, "state": state, "action": action, "cost": cost})
        made["refusals"] += [
            {"decision_id": decision, "superseded_at": rng.choice((None, None, datetime(2026, 3, 1, tzinfo=UTC)))}
            for _ in range(rng.randrange(4))
        ]
        for _ in range(rng.randrange(3)):
            made["trades"].append({"agent_id": agent_id, "action": rng.choice(("BUY", "SELL")), "amount": dollars(rng.randrange(10**10))})
    for number in range(1, rng.randrange(1, 5)):
        made["ledger"].append({"agent_id": agent_id, "number": number, "cash": dollars(rng.randrange(-5, 10**10))})
    made["positions"] += [{"agent_id": agent_id, "status": rng.choice(("open", "closed", "settled"))} for _ in range(rng.randrange(4))]
    for hours in range(rng.randrange(5)):
        total = dollars(initial * rng.randrange(1, 2000) // 1000)
        made["portfolios"].append({"agent_id": agent_id, "at": START + timedelta(hours=hours), "total": total})


def frames(rng: Random, made: dict[str, Rows]) -> dict[str, pl.DataFrame]:
    """The rows as the tables have them, in any order."""
    columns = {
        "agents": ("agent_id", "methodology", "reconstructed", "family", "week", "initial_cash", "archived_at"),
        "decisions": ("decision_id", "agent_id", "state", "action", "cost"),
        "refusals": ("decision_id", "superseded_at"),
        "trades": ("agent_id", "action", "amount"),
        "ledger": ("agent_id", "number", "cash"),
        "positions": ("agent_id", "status"),
        "portfolios": ("agent_id", "at", "total"),
        "scored": ("methodology", "reconstructed", "family", *MEANS),
    }
    found = {}
    for name, rows in made.items():
        schema = LEADERBOARD.schema if name == "scored" else table(f"arena/{name}").schema
        shuffled = rng.sample(rows, len(rows))
        found[name] = pl.DataFrame(shuffled, schema={column: schema[column] for column in columns[name]}, orient="row")
    return found


def counted(made: dict[str, Rows], completed: list[date]) -> Rows:
    """Rows of the leaderboard, one family after the other, in integers and fractions."""

    def of(name: str, agent: dict[str, Any]) -> Rows:
        return [row for row in made[name] if row["agent_id"] == agent["agent_id"]]

    rows = []
    for key in {(one["methodology"], one["reconstructed"], one["family"]) for one in made["agents"] if one["archived_at"] is None}:
        agents = [a for a in made["agents"] if (a["methodology"], a["reconstructed"], a["family"]) == key and a["archived_at"] is None]
        decisions = [row for agent in agents for row in of("decisions", agent)]
        finished = [row for row in decisions if row["state"] == "finished"]
        invalid = [row for row in finished if row["action"] == "INVALID"]
        trades = [row for agent in agents for row in of("trades", agent)]
        refusals = [row for row in made["refusals"] if row["superseded_at"] is None]
        cash = total = initial = Decimal(0)
        falls = [Fraction(0)]
        for agent in agents:
            start = agent["initial_cash"]
            values = [start, *(row["total"] for row in sorted(of("portfolios", agent), key=lambda row: row["at"]))]
            falls += [1 - Fraction(after) / Fraction(before) for n, after in enumerate(values) for before in values[:n]]
            booked = sorted(of("ledger", agent), key=lambda row: row["number"])
            initial, total, cash = initial + start, total + values[-1], cash + (booked[-1]["cash"] if booked else start)
        costs = [row["cost"] for row in decisions]
        (means,) = (row for row in made["scored"] if (row["methodology"], row["reconstructed"], row["family"]) == key)
        rows.append(
            {name: means.get(name) for name in MEANS}
            | {
                "methodology": key[0],
                "reconstructed": key[1],
                "family": key[2],
                "cohorts": len(agents),
                "completed": sum(agent["week"] in completed for agent in agents),
                "decisions": len(decisions),
                "finished": len(finished) - len(invalid),
                "invalid": len(invalid),
                "unfinished": len(decisions) - len(finished),
                "bets": sum(row["action"] == "BUY" for row in trades),
                "refused": sum(row["decision_id"].startswith(f"{agent['agent_id']}/") for agent in agents for row in refusals),
                "initial_cash": initial,
                "cash": cash,
                "total": total,
                "profit": total - initial,
                "return": float(Fraction(total - initial) / Fraction(initial)),
                "drawdown": float(max(falls)),
                "turnover": float(Fraction(sum((row["amount"] for row in trades), Decimal(0))) / Fraction(initial)),
                "open_positions": sum(row["status"] == "open" for agent in agents for row in of("positions", agent)),
                "cost": None if None in costs else sum(costs, Decimal(0)),
            }
        )
    for row in rows:
        metric = PRIMARIES[row["methodology"]]
        alike = [other for other in rows if (other["methodology"], other["reconstructed"]) == (row["methodology"], row["reconstructed"])]
        ranked = [one for one in alike if one[metric] is not None and 2 * one["finished"] >= one["decisions"] > 0]
        better = (
            [one for one in ranked if (one[metric] > row[metric] if metric == "return" else one[metric] < row[metric])]
            if row in ranked
            else []
        )
        row["rank"] = 1 + len(better) if row in ranked else None
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_the_leaderboard_is_what_counting_by_hand_gives(seed: int) -> None:
    rng = Random(seed)
    made, completed = random_facts(rng), rng.sample(WEEKS, rng.randrange(3))
    inputs = frames(rng, made) | {
        "completed": pl.DataFrame({"week": completed}, schema={"week": pl.Date()}),
        "primaries": pl.DataFrame({"methodology": list(PRIMARIES), "metric": list(PRIMARIES.values())}),
    }
    found = run_sql(LEADERBOARD, inputs, {"covered": 0.5})
    expected = LEADERBOARD.frame(counted(made, completed)).sort(LEADERBOARD.order)
    assert found.height > 10 and 0 < found["rank"].null_count() < found.height and 0 < found["cost"].null_count() < found.height
    assert found.equals(expected)


@pytest.mark.parametrize("seed", range(3))
def test_releases_are_what_reading_the_cohorts_in_order_gives(seed: int) -> None:
    rng, agents = Random(seed), []
    for reconstructed, family, week in product((False, True), ("acme", "beta"), [WEEKS[0] + timedelta(days=7 * n) for n in range(8)]):
        model = rng.choice(("m1", "m2", "m3", "rule/hold"))
        price = rng.choice((None, dollars(rng.randrange(10**7))))
        agents.append(
            row_of(
                "arena/agents",
                week=week,
                agent_id=f"{week}/{family} {reconstructed}",
                family=family,
                model=model,
                reconstructed=reconstructed,
                model_id=rng.choice((None, f"lab/{model}")),
                input_price=price,
                output_price=price,
            )
        )
    expected: Rows = []
    for reconstructed, family in product((False, True), ("acme", "beta")):
        used: dict[str, Rows] = {}
        for row in agents:
            if row["reconstructed"] == reconstructed and row["family"] == family and not row["model"].startswith("rule/"):
                used.setdefault(row["model"], []).append(row)
        previous = None
        for model, rows in used.items():
            newest = {name: rows[-1][name] for name in ("model_id", "input_price", "output_price")}
            spans = {"first_cohort": rows[0]["week"], "last_cohort": rows[-1]["week"], "cohorts": len(rows)}
            about = {"reconstructed": reconstructed, "family": family, "title": family, "control": False, "model": model, "released": None}
            expected.append({**about, **newest, **spans, "previous": previous})
            previous = model
    declared = table("arena/releases")
    found = releases(table("arena/agents").frame(rng.sample(agents, len(agents))), {})
    assert found.height > 6
    assert found.equals(declared.frame(expected).sort(declared.order))
