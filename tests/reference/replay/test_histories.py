"""Fills of the queue models lie within all queue histories of small random recordings, and sampled histories are among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from bellwether.replay.engine import Session
from bellwether.replay.rules import RuleSet, rule_set
from bellwether.replay.settings import BacktestSettings
from bellwether.units import MicroDollars
from tests.reference.replay import Reference
from tests.reference.replay.both_engines import replay_both, tape_of
from tests.reference.replay.engine import INVALID, LEVEL, PRINT, SETTLE, TRADED, VALID
from tests.reference.replay.histories import Histories
from tests.reference.replay.orders import DOLLAR, GTC, IOC, POST_ONLY
from tests.reference.replay.portfolio import Recording
from tests.sizes import EXAMPLES

SECOND = 1_000_000_000
FREE = replace(rule_set("polymarket-2020-10-01"), min_lots=1, lot_step=1)
NO_FEES = (0, 0, 1, 0, 0, 1, 0)
#: Rules and terms with fees rounded per fill, with and without accumulators, up and to the nearest unit.
FEES = tuple(
    (replace(rule_set(name), min_lots=1, lot_step=1), terms)
    for name, terms in {
        "kalshi-2025-07-01": (1, 7, 100, 1, 7, 400, 0),
        "kalshi-2026-03-09": (1, 7, 100, 1, 700, 400, 0),
        "kalshi-2026-05-28": (1, 700, 100, 1, 700, 400, 0),
        "kalshi-2026-08-30-cents": (1, 7, 100, 1, 700, 4, 0),
        "polymarket-2026-04-01": (2, 1, 40, 2, 900, 100, 0),
    }.items()
)
#: Bids in the recordings, by side. A NO bid at 52 cents meets a YES bid at 48.
PRICES = ((4_700, 4_800), (5_100, 5_200))
MODELS = ("proportional", "proportional:3", "optimistic")


def recording(rng: Random, instants: int, largest: int, terms: tuple[int, ...]) -> Recording:
    """Draw a small book that moves each half second: cuts and growth, prints with and without their cuts, gaps, crossing books, a result."""
    levels: dict[tuple[int, int], int] = {}
    events: list[tuple[int, int, int, int, int, int]] = []
    now, valid, crossing = 0, True, rng.random() < 0.3

    def add(kind: int, side: int = 0, price: int = 0, value: int = 0) -> None:
        events.append((now, kind, 0, side, price, value))
        if kind in (LEVEL, TRADED):
            levels[side, price] = value

    for side in (0, 1):
        add(LEVEL, side, PRICES[side][0], rng.randint(largest // 2, largest))
        add(LEVEL, side, PRICES[side][0] - 100, largest)
    for _ in range(instants):
        now += SECOND // 2
        side = int(rng.random() < (0.4 if crossing else 0.15))
        price = PRICES[side][rng.random() < (0.5 if crossing else 0.08)]
        shown, chance = levels.get((side, price), 0), rng.random()
        if chance < 0.03 or (not valid and chance < 0.4):
            add(INVALID if valid else VALID)
            valid = not valid
        elif chance < 0.72:
            add(
                LEVEL,
                side,
                price,
                rng.choice((rng.randint(0, largest), shown + 3, shown + 2, max(0, shown - 1), max(0, shown - 2), max(0, shown - 3))),
            )
        else:
            price -= 100 * (rng.random() < 0.02)
            lots = rng.randint(1, 2)
            add(PRINT, side, price, lots)
            if rng.random() < 0.7 and (side, price) in levels:
                add(TRADED, side, price, max(0, levels[side, price] - lots))
    now += SECOND
    if rng.random() < 0.7:
        add(SETTLE, value=rng.choice((0, 1_000_000, 437_219)))
    grid = frozenset(range(100, DOLLAR, 100))
    return Recording(events, ("T",), 0, [grid], [terms])


def script(rng: Random, steps: int, kind: str) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Draw calls at each decision before the replay: a single order, or streams of orders, cancels and amends."""
    calls: list[list[tuple[str, tuple[int, ...]]]] = [[] for _ in range(steps)]
    sent = 0

    def order() -> tuple[str, tuple[int, ...]]:
        side = int(rng.random() < 0.3)
        return "place", (
            0,
            side,
            0,
            PRICES[side][rng.random() < 0.05],
            rng.randint(1, 6),
            rng.choice((GTC, GTC, GTC, POST_ONLY, POST_ONLY, IOC)),
            0,
        )

    if kind == "single":
        calls[0] = [("place", (0, 0, 0, PRICES[0][0], rng.randint(1, 6), POST_ONLY, 0))]
        return calls
    for step in calls:
        if sent < 4 and rng.random() < 0.5:
            step.append(order())
            sent += 1
        if sent and rng.random() < 0.15:
            number = rng.randrange(sent)
            step.append(
                rng.choice(
                    (("cancel", (number,)), ("amend", (number, PRICES[0][0], rng.randint(1, 3))), ("amend", (number, PRICES[1][1], 1)))
                )
            )
        if rng.random() < 0.04:
            step.append(("cancel_all", ()))
    return calls


def case(seed: int, kind: str) -> tuple[Recording, RuleSet, BacktestSettings, Iterator[list[tuple[str, tuple[int, ...]]]]]:
    rng = Random(seed)
    rules, terms = rng.choice(FEES) if kind == "fees" else (FREE, NO_FEES)
    made = recording(rng, rng.randint(8, 24), rng.randint(4, 9), terms)
    latency = rng.choice((0, 0, SECOND // 4)) if kind == "streams" else 0
    settings = BacktestSettings(
        cadence=SECOND, sample_every=2 * SECOND, bankroll=MicroDollars(10**9), queue=rng.choice(MODELS), order_latency=latency
    )
    return made, rules, settings, iter(script(rng, 12, kind))


def replayed(seed: int, kind: str, queue: str | None = None) -> tuple[Reference, Histories]:
    made, rules, settings, steps = case(seed, kind)
    plain = Reference(made, rules, replace(settings, queue=queue or settings.queue))
    plain.journal = []
    while plain.step():
        for name, arguments in next(steps, []):
            getattr(plain, name)(*arguments)
    terms = made.fees[0] if kind == "fees" else ()
    return plain, Histories(settings.bankroll, rules, terms).run(plain.journal, len(plain.orders))


def check(plain: Reference, every: Histories) -> bool:
    """Compare the fills with those in all histories. Returns True if any fill was uncertain."""
    found = every.filled()
    for number, (lowest, highest) in found.items():
        main = plain.orders[number].filled
        assert lowest <= main <= highest, f"order {number}: the model fills {main}, out of {lowest} to {highest}"
    return any(lowest < highest for lowest, highest in found.values())


#: Recordings of each kind in the nightly enumeration.
SHARES = {"single": 4_000, "streams": 4_000, "fees": 1_000}


@pytest.mark.parametrize("kind", SHARES)
def test_fills_lie_within_the_queue_histories_of_some_recordings(kind: str) -> None:
    check_recordings(kind, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SHARES)
def test_fills_lie_within_the_queue_histories(kind: str) -> None:
    check_recordings(kind, SHARES[kind])


def check_recordings(kind: str, count: int) -> None:
    """Compare the fills of the first recordings of a kind with all their histories."""
    seen: Counter[str] = Counter()
    for seed in range(count):
        plain, every = replayed(seed, kind)
        try:
            seen["uncertain"] += check(plain, every)
        except AssertionError as error:
            raise AssertionError(f"recording {seed} of {kind}: {error}") from None
        seen["histories"] += len(every.states)
    assert seen["uncertain"] > count // 10


@pytest.mark.parametrize("kind", SHARES)
def test_sampled_histories_are_among_all_histories(kind: str) -> None:
    for number in range(2 * EXAMPLES):
        plain, every = replayed(number // 2, kind, f"sampled:{number}")
        assert every.contained, f"history {number} of recording {number // 2} fills {[order.filled for order in plain.orders]}"


def test_samples_reach_the_extremes_of_all_histories() -> None:
    uncertain = 0
    for seed in range(2 * EXAMPLES):
        made, rules, settings, steps = case(seed, "single")
        if any(kind == INVALID for _, kind, *_ in made.events):
            continue  # cancels in a gap are not sampled
        ((_, request),) = next(steps)
        ends = set(replayed(seed, "single")[1].filled().get(0, (0,)))
        uncertain += len(ends) > 1
        histories = iter(range(1_000))
        while ends:
            session = Session(tape_of(made), rules, replace(settings, queue=f"sampled:{next(histories)}"))
            session.step()
            session.place(*request)
            while session.step():
                pass
            ends.discard(int(session.orders["filled"][0]))
    assert uncertain > EXAMPLES // 8


@pytest.mark.parametrize("kind", SHARES)
def test_the_compiled_engine_has_the_same_fills(kind: str) -> None:
    for seed in range(2 * EXAMPLES):
        made, rules, settings, steps = case(seed, kind)
        queue = f"sampled:{seed}" if seed % 2 else settings.queue
        replay_both(tape_of(made), rules, replace(settings, queue=queue), lambda _, steps=steps: next(steps, []))
