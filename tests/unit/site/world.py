"""Warehouses of any size for the site, with rows of every table that it shows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.arena.lineup import build_release_rows
from bellwether.forecasting.prompt import messages, prompt_hash
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.tables import table

NOW = datetime(2026, 6, 28, tzinfo=UTC)
SUNDAY = date(2025, 6, 29)
_DEFAULTS: dict[Any, Any] = {pl.String(): "x", pl.Boolean(): False, pl.Date(): SUNDAY}


#: Every escape from text into markup, script, style or another reading direction.
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`<!--]]>{{7*7}}"
    "javascript:window.hacked=1 \u202eabc\u2066 \u2028\u2029 =1+1 \U0001f4a3 "
)


@dataclass(frozen=True)
class Size:
    """Number of rows of each kind."""

    releases: int = 1
    models: int = 4
    questions: int = 30
    prices: int = 20
    episodes: int = 2
    agents: int = 3
    samples: int = 40
    orders: int = 30
    books: int = 12
    cohorts: int = 3
    families: int = 3
    markets: int = 60
    trades: int = 2


Words = Callable[[str, int], str]


def plain_name(kind: str, number: int) -> str:
    """Return an ordinary name or text."""
    return f"{kind}-{number}"


def rows(name: str, count: int, **given: Any) -> pl.DataFrame:
    """Return `count` rows of a table with these columns, each a list or a single value. Other columns are null if possible, or else have a
    default value.
    """
    declared = table(name)
    columns = []
    for column in declared.columns:
        value = given.pop(column.name, None if column.nullable else _default(column.dtype))
        values = (
            value
            if isinstance(value, list) and (not isinstance(column.dtype, pl.List) or (value and isinstance(value[0], list)))
            else [value] * count
        )
        if isinstance(column.dtype, pl.Decimal):
            values = [None if one is None else round(float(one), column.dtype.scale) for one in values]
            series = pl.Series(column.name, values, dtype=pl.Float64).cast(column.dtype)
        elif isinstance(column.dtype, pl.List):
            series = pl.Series(
                column.name, values, dtype=pl.List(pl.Float64) if isinstance(column.dtype.inner, pl.Decimal) else column.dtype
            ).cast(column.dtype)
        else:
            series = pl.Series(column.name, values, dtype=column.dtype, strict=False)
        columns.append(series)
    assert not given, given
    return pl.DataFrame(columns)


def _default(dtype: Any) -> Any:
    if isinstance(dtype, pl.List):
        return []
    if isinstance(dtype, pl.Datetime):
        return NOW
    return _DEFAULTS.get(dtype, 0)


def write(lake: Lake, size: Size = Size(), words: Words = plain_name) -> None:
    """Write all tables of a world of this size."""
    for number in range(size.releases):
        _release(lake, size, number, words)
    for number in range(size.episodes):
        _episode(lake, size, number, words)
    if size.episodes:
        _summary(lake, size, words)
    if size.cohorts:
        arena(lake, size, words)


def published(folder: Path, size: Size = Size(), words: Words = plain_name) -> Path:
    """Publish a warehouse of a world of this size."""
    lake = Lake(str(folder / "lake"), clock=lambda: NOW)
    write(lake, size, words)
    publish(lake, folder / "warehouse.duckdb")
    return folder / "warehouse.duckdb"


def _release(lake: Lake, size: Size, number: int, words: Words) -> None:
    rng, release, count = random.Random(number), words("release", number), size.questions
    ids = [words(f"question-{number}", place) for place in range(count)]
    truth = [rng.choice(("yes", "no")) for _ in ids]
    closes = [NOW - timedelta(days=rng.randrange(1, 90)) for _ in ids]
    question_texts = {
        "question": [words("Will it happen", place) for place in range(count)],
        "description": [words("criteria", place) for place in range(count)],
    }
    lake.write(
        table("benchmark/questions"),
        (release,),
        rows(
            "benchmark/questions", count, release=release, id=ids, market_id=ids, source="kalshi", ground_truth=truth, close_time=closes,
            category=[words("category", place % 5) for place in range(count)], ordinal=list(range(count)), price_24h=[rng.random() for _ in ids],
            series_ticker=words("series", 0), event_id=words("event", 0), cluster=words("cluster", 0), **question_texts,
        ),
        run_id="r",
    )  # fmt: skip
    names = [words("model", place) for place in range(size.models)]
    skills = [rng.random() for _ in names]
    board: dict[str, list[Any]] = {"brier": [], "lower": [], "upper": []}
    questions = [
        {"source": "kalshi", "market_id": ids[place], **{one: texts[place] for one, texts in question_texts.items()}}
        for place in range(count)
    ]
    hashes = [prompt_hash(messages(one, NOW)) for one in questions]
    for name, skill in zip(names, skills, strict=True):
        p = [min(1.0, max(0.0, skill * (one == "yes") + (1 - skill) * rng.random())) for one in truth]
        briers = [(one - (other == "yes")) ** 2 for one, other in zip(p, truth, strict=True)]
        mean = sum(briers) / count
        for key, value in (("brier", mean), ("lower", mean * 0.8), ("upper", mean * 1.2)):
            board[key].append(value)
        where = {"release": release, "forecaster": name}
        lake.write(
            table("benchmark/forecasts"), (release, name),
            rows("benchmark/forecasts", count, **where, question_id=ids, p_yes=p, cost=0.001, combine="mean", call_key=[f"{name} {one}" for one in ids], as_of=NOW,
                 elicitation="tags/1", prompt_hash=hashes, answer=["yes" if one >= 0.5 else "no" for one in p], confidence=p, parsed_by=words("parsed", 0),
                 raw_response=[words("response", place) for place in range(count)], reasoning=[words("reasoning", place) for place in range(count)]),
            run_id="r",
        )  # fmt: skip
        scopes = ["all", *(f"category:{words('category', place)}" for place in range(min(5, count)))]
        cells = [(scope, metric) for scope in scopes for metric in ("brier", "log_loss", "ece", "accuracy")]
        values = [rng.random() for _ in cells]
        lake.write(
            table("benchmark/scores"), (release, name),
            rows("benchmark/scores", len(cells), **where, scope=[one for one, _ in cells], metric=[one for _, one in cells], value=values,
                 lower=[one * 0.9 for one in values], upper=[one * 1.1 for one in values], n=count, n_questions=count),
            run_id="r",
        )  # fmt: skip
        bins = list(range(10))
        lake.write(
            table("benchmark/reliability"), (release, name),
            rows("benchmark/reliability", 10, **where, bin=bins, lower_edge=[one / 10 for one in bins], upper_edge=[(one + 1) / 10 for one in bins],
                 n=10, mean_forecast=[one / 10 + 0.05 for one in bins], yes_rate=[rng.random() for _ in bins]),
            run_id="r",
        )  # fmt: skip
    order = sorted(range(len(names)), key=lambda place: board["brier"][place])
    ranks = [order.index(place) + 1 for place in range(len(names))]
    lake.write(
        table("benchmark/leaderboard"), (release,),
        rows("benchmark/leaderboard", len(names), release=release, forecaster=names, rank=ranks, kind="language_model", brier=board["brier"],
             brier_lower=board["lower"], brier_upper=board["upper"], brier_skill=[rng.uniform(-2, 1) for _ in names], accuracy=[rng.random() for _ in names],
             ece=[rng.random() for _ in names], group="a", coverage=1.0, n=count, n_questions=count, unranked_because=words("reason", 0),
             known_at=[NOW + timedelta(minutes=place) for place in range(len(names))]),
        run_id="r",
    )  # fmt: skip
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    if pairs:
        lake.write(
            table("benchmark/comparisons"), (release,),
            rows("benchmark/comparisons", len(pairs), release=release, forecaster=[one for one, _ in pairs], other=[one for _, one in pairs], n=count,
                 difference=[rng.uniform(-0.5, 0.5) for _ in pairs], p=0.01, p_holm=[rng.random() for _ in pairs]),
            run_id="r",
        )  # fmt: skip
    lake.write(
        table("benchmark/leaks"), (release,),
        rows("benchmark/leaks", count, release=release, question_id=ids, kind=["event", *["document"] * (count - 1)], source=words("corpus", 0),
             other=[words("document", place) for place in range(count)], similarity=1.0, evidence=[words("statement", place) for place in range(count)]),
        run_id="r",
    )  # fmt: skip
    parts = ["all", "no leak", "days:<=-365", "days:-90..0", "days:>365", "jump"]
    cells = [(name, part) for name in names for part in parts]
    lake.write(
        table("benchmark/leak_scores"), (release,),
        rows("benchmark/leak_scores", len(cells), release=release, forecaster=[one for one, _ in cells], part=[one for _, one in cells], share=0.5,
             brier=0.21, lower=0.11, upper=0.31, n=count, n_clusters=count),
        run_id="r",
    )  # fmt: skip
    if size.prices:
        at = [close - timedelta(hours=place + 1) for close in closes for place in range(size.prices)]
        day = SUNDAY + timedelta(days=number)
        lake.write(
            table("clean/prices"), (day.isoformat(),),
            rows("clean/prices", len(at), day=day, venue="kalshi", market_id=[one for one in ids for _ in range(size.prices)], at=at,
                 bid=[rng.uniform(0.01, 0.5) for _ in at], ask=[rng.uniform(0.5, 0.99) for _ in at]),
            run_id="r",
        )  # fmt: skip


def _episode(lake: Lake, size: Size, number: int, words: Words) -> None:
    rng, episode = random.Random(number), words("episode", number)
    tickers = [words("ticker", place) for place in range(2)]
    lake.write(
        table("replay/episodes"), (episode,),
        rows("replay/episodes", 2, episode=episode, ticker=tickers, event=words("event", 0), venue="kalshi", title=words("title", number), warnings=[[words("warning", 0)]] * 2,
             result="YES", result_source=words("source", 0)),
        run_id="r",
    )  # fmt: skip
    bids = [rng.randrange(10, 80) / 100 for _ in range(2 * size.books)]
    # One instant without a book, and one without an ask.
    dark, bare = ([one % size.books == instant for one in range(len(bids))] for instant in (1, 2))
    sides: dict[str, list[Any]] = {
        "bid": bids,
        "bid_size": [5 + one for one in range(len(bids))],
        "bid_depth": [90 + one for one in range(len(bids))],
        "bid_prices": [[bid, bid - 0.01] for bid in bids],
        "bid_sizes": [[5 + one, 85] for one in range(len(bids))],
    }
    sides |= {
        "ask": [None if gone else bid + 0.02 for bid, gone in zip(bids, bare, strict=True)],
        "ask_size": [0 if gone else 7 for gone in bare],
        "ask_depth": [0 if gone else 70 for gone in bare],
        "ask_prices": [[] if gone else [bid + 0.02] for bid, gone in zip(bids, bare, strict=True)],
        "ask_sizes": [[] if gone else [7] for gone in bare],
    }
    lake.write(
        table("replay/books"), (episode,),
        rows("replay/books", len(bids), episode=episode, ticker=[one for one in tickers for _ in range(size.books)],
             at=[NOW + timedelta(seconds=45 * (one % size.books)) for one in range(len(bids))], valid=[not one for one in dark],
             traded=[one % 3 for one in range(len(bids))], trade_price=[0.5 if one % 3 else None for one in range(len(bids))],
             **{name: [None if gone else value for value, gone in zip(values, dark, strict=True)] for name, values in sides.items()}),
        run_id="r",
    )  # fmt: skip
    for place in range(size.agents):
        agent, count = words("agent", place), size.samples
        where = {"episode": episode, "agent": agent}
        at = [NOW + timedelta(seconds=60 * one) for one in range(count)]
        equity = [1000 + rng.uniform(-10, 10) for _ in at]
        lake.write(
            table("replay/equity"), (episode, agent),
            rows("replay/equity", count, **where, sample=list(range(count)), at=at, equity=equity),
            run_id="r",
        )  # fmt: skip
        orders = list(range(size.orders))
        when = [NOW + timedelta(seconds=30 * one) for one in orders]
        own = {"side": "yes", "action": ["buy" if one % 2 else "sell" for one in orders], "ticker": [tickers[one % 2] for one in orders]}
        lake.write(
            table("replay/orders"), (episode, agent),
            rows("replay/orders", len(orders), **where, order_id=orders, **own, price=0.5, size=10, filled=5, sent_at=when, arrived_at=when, mid=0.5,
                 reason=words("reason", 0), status="filled"),
            run_id="r",
        )  # fmt: skip
        lake.write(
            table("replay/fills"), (episode, agent),
            rows("replay/fills", len(orders), **where, fill_id=orders, order_id=orders, **own, price=[rng.uniform(0.1, 0.9) for _ in orders], size=5,
                 filled_at=when, role="maker", markout_1s=0.01),
            run_id="r",
        )  # fmt: skip
        pnl = equity[-1] - 1000
        lake.write(
            table("replay/backtests"), (episode, agent),
            rows("replay/backtests", 1, **where, bankroll=1000, pnl=pnl, queues=20, queue_pnls=[[pnl] * 20], queue_pnl_median=pnl, queue_pnl_low=pnl - 2, queue_pnl_high=pnl + 2,
                 queue_profitable=0.5, failure=words("failure", 0), rules=words("rules", 0),
                 known_at=NOW + timedelta(minutes=place)),
            run_id="r",
        )  # fmt: skip
        lake.write(
            table("replay/market_pnl"), (episode, agent), rows("replay/market_pnl", 2, **where, ticker=tickers, pnl=pnl / 2), run_id="r"
        )


def _summary(lake: Lake, size: Size, words: Words) -> None:
    names = [words("agent", place) for place in range(size.agents)]
    values = [float(place) - 1.25 for place in range(size.agents)]
    lake.write(
        table("replay/summary"), (),
        rows("replay/summary", len(names), agent=names, rules=words("rules", 0), episodes=size.episodes, pnl=values, pnl_mean=values, pnl_min=[one - 1 for one in values],
             pnl_max=[one + 1 for one in values]),
        run_id="r",
    )  # fmt: skip


def arena(lake: Lake, size: Size, words: Words = plain_name) -> None:
    """Write cohorts of the arena. Additional cohorts leave existing ones unchanged."""
    families = [words("family", place) for place in range(size.families)]
    titles = dict(enumerate(words("Will this end well", place) for place in range(size.markets)))
    entered: list[pl.DataFrame] = []
    books: dict[str, list[pl.DataFrame]] = {name: [] for name in ("portfolios", "positions", "ledger", "scores", "settlements")}
    for number in range(size.cohorts):
        rng, week = random.Random(number), SUNDAY + timedelta(weeks=number)
        start = datetime(week.year, week.month, week.day, tzinfo=UTC)
        ids = [words(f"market-{number}", place) for place in range(size.markets)]
        lake.write(
            table("arena/universe"), (week.isoformat(),),
            rows("arena/universe", size.markets, week=week, place=list(range(1, size.markets + 1)), market_id=ids, question=list(titles.values()),
                 category=[words("category", place % 4) for place in range(size.markets)], outcomes=[[words("Yes", 0), "No"]] * size.markets,
                 prices=[[0.4, 0.6]] * size.markets, volume=[rng.uniform(0, 1e6) for _ in ids], token_ids=[["1", "2"]] * size.markets),
            run_id="r",
        )  # fmt: skip
        agents = [f"{week}/{family}" for family in families]
        # Every family changes its release at its second cohort.
        models = [words("model", place + (size.families if number else 0)) for place in range(len(agents))]
        entered.append(
            rows("arena/agents", len(agents), week=week, agent_id=agents, family=families, model=models, methodology="v1", initial_cash=10_000, lineup=words("lineup", 0))
        )  # fmt: skip
        lake.write(table("arena/agents"), (week.isoformat(),), entered[-1], run_id="r")
        decisions = [f"{agent}/{week}" for agent in agents]
        lake.write(
            table("arena/decisions"), (week.isoformat(),),
            rows("arena/decisions", len(decisions), week=week, decision_id=decisions, agent_id=agents, state="finished", action="BET", legs=size.trades,
                 decision=[words("decision", place) for place in range(len(agents))], reasoning=[words("reasoning", place) for place in range(len(agents))],
                 message=words("message", 0), methodology="v1", cost=[None if place == 1 else 0.002 for place in range(len(agents))],
                 input_tokens=1000, output_tokens=[100 + place for place in range(len(agents))]),
            run_id="r",
        )  # fmt: skip
        spoken = [("system", words("rules", 0)), ("user", words("portfolio", 0)), ("assistant", words("answer", 0))]
        listed = "\n".join(f"- market_id {one}" for one in ids)
        contents = [f"{content} of {agent}\n{listed}" if role == "user" else content for agent in agents for role, content in spoken]
        lake.write(
            table("arena/messages"), (week.isoformat(),),
            rows("arena/messages", len(contents), week=week, decision_id=[one for one in decisions for _ in spoken], number=[1, 2, 3] * len(decisions),
                 role=[role for role, _ in spoken] * len(decisions), content=contents),
            run_id="r",
        )  # fmt: skip
        lake.write(
            table("arena/refusals"), (week.isoformat(),),
            rows("arena/refusals", len(decisions), week=week, decision_id=decisions, leg=size.trades + 1, reason=words("reason", 0), message=words("found", 0)),
            run_id="r",
        )  # fmt: skip
        legs = [(agent, leg) for agent in agents for leg in range(1, size.trades + 1)]
        trades = [f"{agent}/{week}/{leg}" for agent, leg in legs]
        bought = [ids[rng.randrange(size.markets)] for _ in legs]
        own = {"agent_id": [agent for agent, _ in legs], "market_id": bought, "side": words("Yes", 0)}
        lake.write(
            table("arena/trades"), (week.isoformat(),),
            rows("arena/trades", len(legs), week=week, trade_id=trades, position_id=trades, action="BUY", shares=100, price=0.4, amount=40, probability=0.7, **own),
            run_id="r",
        )  # fmt: skip
        books["positions"].append(
            rows("arena/positions", len(legs), position_id=trades, status="settled", shares=100, cost=40, paid=100, realized=60, result="won", won=True,
                 methodology="v1", opened_at=start, ended_at=start + timedelta(days=20), **own)
        )  # fmt: skip
        numbers = list(range(1, size.trades + 1)) * len(agents)
        books["ledger"].append(
            rows(
                "arena/ledger",
                len(legs),
                number=numbers,
                kind="BUY",
                amount=-40,
                cash=9960,
                position_id=trades,
                trade_id=trades,
                shares=100,
                cost=40,
                **own,
            )
        )
        scored = {"trade_id": trades, "winner": words("Yes", 0), "won": True, "price": 0.4, "brier_stated": 0.09, **own}
        books["scores"].append(rows("arena/scores", len(legs), **scored))
        ended = sorted(set(bought))
        books["settlements"].append(
            rows(
                "arena/settlements",
                len(ended),
                market_id=ended,
                methodology="v1",
                number=1,
                result="won",
                winner=words("Yes", 0),
                rule=words("rule", 0),
            )
        )
        marks = [(agent, step) for agent in agents for step in range(30)]
        totals = [10_000 + rng.uniform(-500, 500) for _ in marks]
        at = [start + timedelta(hours=20 * step) for _, step in marks]
        held = {
            "agent_id": [agent for agent, _ in marks],
            "cash": 9_000,
            "invested": 1_000,
            "total": totals,
            "profit": [one - 10_000 for one in totals],
        }
        books["portfolios"].append(rows("arena/portfolios", len(marks), at=at, methodology="v1", **held))
        lake.write(
            table("arena/prices"), (week.isoformat(),),
            rows("arena/prices", len(ended), day=week, market_id=ended, outcome="YES", at=start, price=0.4, source="live"),
            run_id="r",
        )  # fmt: skip
    for name, frames in books.items():
        lake.write(table(f"arena/{name}"), (), pl.concat(frames), run_id="r")
    lake.write(table("arena/releases"), (), build_release_rows(pl.concat(entered), {}), run_id="r")
    count = len(families)
    lake.write(
        table("arena/leaderboard"), (),
        rows("arena/leaderboard", count, methodology="v1", family=families, cohorts=size.cohorts, profit=[100.0 - place for place in range(count)],
             brier_stated=0.09, **{"return": [(100.0 - place) / 10_000 for place in range(count)]}),
        run_id="r",
    )  # fmt: skip
    _rankings(lake, size, families)


def _rankings(lake: Lake, size: Size, families: list[str]) -> None:
    """Return rankings, pairs and reliability of live cohorts. The last family could know the outcomes, so its group is separate."""
    count = len(families)
    apart = [place == count - 1 > 0 for place in range(count)]
    metrics = ("brier_vs_price", "return", "brier_stated", "brier_size", "skill_price", "win_rate")
    cells = [(place, metric) for place in range(count) for metric in metrics]
    values = [0.1 + 0.01 * place + 0.001 * len(metric) for place, metric in cells]
    paired = [metric in ("brier_vs_price", "brier_stated", "brier_size", "return") for _, metric in cells]
    group = {"methodology": "v1"}
    points = [(place, day) for place in range(count) for day in range(7 * size.cohorts)]
    own = {
        "family": [families[place] for place, _ in points],
        "contaminated": [apart[place] for place, _ in points],
        "n": 1,
        "total": [10_000 + 10 * day for _, day in points],
        **group,
    }
    for name, x in (
        ("equity_by_day", {"day": [SUNDAY + timedelta(days=day) for _, day in points]}),
        ("equity_by_age", {"age": [day for _, day in points]}),
    ):
        lake.write(table(f"arena/{name}"), (), rows(f"arena/{name}", len(points), **own, **x), run_id="r")
    lake.write(
        table("arena/rankings"), (),
        rows("arena/rankings", len(cells), **group, family=[families[place] for place, _ in cells], metric=[metric for _, metric in cells], value=values,
             lower=[one - 0.05 for one in values], upper=[one + 0.05 for one in values], n=20, n_events=12,
             contaminated=[apart[place] for place, _ in cells], baseline=False, rank=[1 if apart[place] else place + 1 for place, _ in cells],
             letters=["ab" if one else None for one in paired], in_mcs=[True if one else None for one in paired], better="lower"),
        run_id="r",
    )  # fmt: skip
    pairs = [(one, other) for place, one in enumerate(families) for other in families[place + 1 :] if not apart[families.index(other)]]
    if pairs:
        lake.write(
            table("arena/pairs"), (),
            rows("arena/pairs", len(pairs), **group, metric="brier_vs_price", family=[one for one, _ in pairs], other=[other for _, other in pairs], n=size.cohorts,
                 difference=-0.01, lower=-0.02, upper=0.0, p=0.02, p_holm=0.04),
            run_id="r",
        )  # fmt: skip
    bins = [(place, one) for place in range(count) for one in range(10)]
    lake.write(
        table("arena/calibration"), (),
        rows("arena/calibration", len(bins), **group, family=[families[place] for place, _ in bins], contaminated=[apart[place] for place, _ in bins],
             bin=[one for _, one in bins], lower_edge=[one / 10 for _, one in bins], upper_edge=[(one + 1) / 10 for _, one in bins], n=5,
             mean_forecast=[one / 10 + 0.05 for _, one in bins], yes_rate=[one / 9 for _, one in bins]),
        run_id="r",
    )  # fmt: skip
