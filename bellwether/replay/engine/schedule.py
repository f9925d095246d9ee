"""Times of decisions and equity samples, fixed before the replay starts.

A *stop* is such a time. Engine time is the time of the tape's events; the agent's clock is later by the latency of market data.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import CLOSE, PRICE_MASK, PRICE_SHIFT, TICKER_MASK, TICKER_SHIFT, VOID, Tape, cache_per_tape

#: Kinds of stops, in the order of stops at one index and time.
WAKE, DECISION, SAMPLE = range(3)

#: Maximum number of stops, of 24 bytes each; more are a mistake of the settings.
MOST_STOPS = 20_000_000


def build_schedule(tape: Tape, settings: BacktestSettings) -> np.ndarray:
    """Build the scheduled stops of a replay in order, int64[k, 3]: tape index (events before it are processed), engine time in ns, kind.

    The engine time of a decision is the agent's `now` less the latency of market data. The last sample is at the end of the tape. Raises
    `ConfigError` when cadence or sampling makes too many stops for the tape's length.
    """
    return _build_schedule(tape, settings.cadence, settings.sample_every, settings.data_latency)


@lru_cache(maxsize=2)
def _build_schedule(tape: Tape, cadence: int, sample_every: int, data_latency: int) -> np.ndarray:
    close_times(tape)
    last = last_time(tape)
    span = max(0, last - tape.start)
    if span // min(cadence, sample_every) > MOST_STOPS:
        every = f"cadence {cadence} and sample_every {sample_every} ns"
        raise ConfigError(f"planning a replay: {every} over {span} ns make more than {MOST_STOPS} stops; raise them")
    decisions = _grid_stops(tape, cadence, last_open_time(tape), data_latency, DECISION)
    samples = _grid_stops(tape, sample_every, last, 0, SAMPLE)
    if not len(samples) or samples[-1, 1] != last:
        samples = np.concatenate([samples, [[len(tape), last, SAMPLE]]])
    return _sort_stops(np.concatenate([_filter_open(tape, decisions, data_latency), samples]))


def add_wakes(schedule: np.ndarray, tape: Tape, times: np.ndarray, data_latency: int) -> np.ndarray:
    """Add stops that wake the agent (kind WAKE) at `times` (int64, ns, engine time), each after the tape's events of its instant.

    Times outside the tradable period, from the episode's start to the last close, are dropped.
    """
    if not (np.diff(times) > 0).all():
        times = np.unique(times)
    times = times[(times > tape.start - data_latency) & (times <= last_open_time(tape))]
    stops = np.column_stack([np.searchsorted(tape.ts, times, side="right"), times, np.full(len(times), WAKE)])
    # A wake-up precedes the decision and the sample of its time.
    return np.insert(schedule, np.searchsorted(schedule[:, 1], times), stops, axis=0)


def _sort_stops(stops: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(stops[np.lexsort(stops.T[[2, 1, 0]])], np.int64)


def last_time(tape: Tape) -> int:
    """Return the time of the last event, ns; the start of a tape without events."""
    return int(tape.ts[-1]) if len(tape) else tape.start


def last_open_time(tape: Tape) -> int:
    """Return the last instant, ns, at which some ticker is neither closed nor settled."""
    return int(close_times(tape).max(initial=tape.start - 1))


@cache_per_tape
def close_times(tape: Tape) -> np.ndarray:
    """Return for each ticker when it closes or is settled, whichever is first, ns, int64[T]; without either, the end of the tape.

    Raises `ConfigError` for events of tickers or levels that the tape does not have.
    """
    _check_events(tape)
    # The low byte of a word contains its kind: a tenth of the memory to scan.
    kinds = tape.event.astype("<i8", copy=False).view(np.uint8)[::8] & 0xF
    ends = np.flatnonzero((kinds >= CLOSE) & (kinds <= VOID))
    first = dict.fromkeys(range(len(tape.tickers)), int(tape.ts[-1]) if len(tape) else tape.start - 1)
    for end in ends[::-1].tolist():
        first[int(tape.event[end]) >> TICKER_SHIFT & TICKER_MASK] = int(tape.ts[end])
    return np.array([first[ticker] for ticker in range(len(tape.tickers))], np.int64)


def _check_events(tape: Tape) -> None:
    """Raise `ConfigError` if an event has a ticker or level that the tape does not have."""
    tickers, levels = tape.event >> TICKER_SHIFT & TICKER_MASK, tape.event >> PRICE_SHIFT & PRICE_MASK
    most = np.array([len(prices) for prices in tape.levels] or [0], np.int64)
    valid = (tape.event >= 0) & (tickers < len(tape.levels))
    bad = np.flatnonzero(~valid | (levels >= most[np.where(valid, tickers, 0)]))
    if len(bad):
        at = int(bad[0])
        raise ConfigError(
            f"reading a tape: event {at} is of ticker {int(tickers[at])}, level {int(levels[at])}; the tape has {len(tape.levels)} tickers of "
            f"{int(most.max())} levels at most"
        )


def _filter_open(tape: Tape, stops: np.ndarray, data_latency: int) -> np.ndarray:
    """Select the stops at which some ticker's recording has begun and the ticker is not closed yet."""
    if (tape.begins <= tape.start).all():
        return stops
    times = stops[:, 1] + data_latency
    is_open = np.zeros(len(stops), bool)
    for begin, close in np.unique(np.column_stack([tape.begins, close_times(tape)]), axis=0).tolist():
        is_open |= (times >= begin) & (times <= close)
    return stops[is_open]


def _grid_stops(tape: Tape, every: int, last: int, data_latency: int, kind: int) -> np.ndarray:
    """Build a stop of a kind every `every` ns on the agent's clock, from the tape's start to `last`."""
    times = np.arange(tape.start, last + 1, every, dtype=np.int64) - data_latency
    return np.column_stack([np.searchsorted(tape.ts, times, side="right"), times, np.full(len(times), kind)]).astype(np.int64, copy=False)
