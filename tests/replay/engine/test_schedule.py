"""Decisions and samples are known before the replay starts."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay.engine import Settings
from bellwether.replay.engine.schedule import DECISION, schedule_of
from bellwether.replay.tape.layout import CLOSE
from bellwether.replay.units import SECOND, YES
from tests.replay.engine.small_tapes import FREE, ORIGINAL, level, life, printed, tape


def rows_at(*seconds: float):
    events = [level(at, YES, 400, 100 + number) for number, at in enumerate(seconds)]
    times = (np.array(seconds) * SECOND).astype(np.int64)
    return tape(*events, rows_ts=times, rows_end=np.arange(1, len(seconds) + 1))


@pytest.mark.parametrize(("rows", "calls"), [((0, 3, 5, 9, 10), [0, 5, 10]), ((0, 7, 11, 12), [0, 7, 12])])
def test_the_original_calls_at_book_rows(rows: tuple[float, ...], calls: list[int]) -> None:
    stops = schedule_of(rows_at(*rows), ORIGINAL, Settings(cadence=5 * SECOND))
    assert (stops[stops[:, 2] == DECISION, 1] // SECOND).tolist() == calls


def test_the_original_samples_after_events() -> None:
    made = rows_at(0, 59, 61, 130)
    stops = schedule_of(made, ORIGINAL, Settings(cadence=1000 * SECOND))
    assert (stops[stops[:, 2] != DECISION, 1] // SECOND).tolist() == [0, 61, 130, 130]


def test_a_row_without_changes_still_counts() -> None:
    made = tape(level(0, YES, 400, 100), rows_ts=np.array([0, 6 * SECOND]), rows_end=np.array([1, 1]))
    stops = schedule_of(made, ORIGINAL, Settings())
    assert stops[stops[:, 2] == DECISION, :2].tolist() == [[1, 0], [1, 6 * SECOND]]


def test_decisions_end_with_the_last_open_market_and_samples_with_the_tape() -> None:
    made = tape(level(0, YES, 400, 100), life(6, CLOSE), life(10, CLOSE, ticker=1), printed(125, YES, 400, 1), tickers=2)
    stops = schedule_of(made, FREE, Settings(cadence=5 * SECOND))
    assert (stops[stops[:, 2] == DECISION, 1] // SECOND).tolist() == [0, 5, 10]
    assert (stops[stops[:, 2] != DECISION, 1] // SECOND).tolist() == [0, 60, 120, 125]


def test_a_sample_that_falls_on_the_end_is_the_last() -> None:
    stops = schedule_of(tape(level(0, YES, 400, 100), level(120, YES, 400, 50)), FREE, Settings(cadence=500 * SECOND))
    assert (stops[stops[:, 2] != DECISION, 1] // SECOND).tolist() == [0, 60, 120]


def test_old_market_data_moves_the_place_of_a_decision_not_its_time() -> None:
    made = tape(level(0, YES, 400, 100), level(4, YES, 400, 50), level(9, YES, 400, 20))
    stops = schedule_of(made, FREE, Settings(cadence=5 * SECOND, data_latency=2 * SECOND))
    assert stops[stops[:, 2] == DECISION, :2].tolist() == [[0, -2 * SECOND], [1, 3 * SECOND]]


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than"):
        schedule_of(tape(level(0, YES, 400, 100), level(9, YES, 400, 20)), FREE, Settings(cadence=10))
    with pytest.raises(ConfigError, match="data_latency"):
        schedule_of(rows_at(0), ORIGINAL, Settings(data_latency=1))


@pytest.mark.parametrize(
    "wrong", [{"cadence": 0}, {"bankroll": -1}, {"queue": "fifo"}, {"max_orders": 1.5}, {"execution": "maker"}, {"order_latency": True}]
)
def test_settings_say_what_is_wrong(wrong: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Settings(**wrong)


def test_equal_settings_have_one_digest() -> None:
    assert Settings().digest() == Settings(cadence=5 * SECOND).digest() != Settings(cadence=6 * SECOND).digest()
