"""Times of decisions and equity samples, fixed before the replay starts.

A *stop* is such a time. Engine time is the time of the tape's events; the agent's clock is later by the latency of market data.
"""

from __future__ import annotations

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.engine.compilation import compiled_allocating
from bellwether.replay.engine.settings import ReplaySettings
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape.layout import CLOSE, HALT, PRICE_MASK, PRICE_SHIFT, PRINT, TICKER_MASK, TICKER_SHIFT, VOID, Tape, cache_per_tape

#: Kinds of stops, in the order of stops at one index and time.
EVENT_SAMPLE, WAKE, DECISION, SAMPLE, FINAL_SAMPLE = range(5)

#: Maximum number of stops, of 24 bytes each; more are a mistake of the settings.
MOST_STOPS = 20_000_000


def build_schedule(tape: Tape, rules: RuleSet, settings: ReplaySettings) -> np.ndarray:
    """Build the scheduled stops of a replay in order, int64[k, 3]: tape index (events before it are processed), engine time in ns, kind.

    The engine time of a decision is the agent's `now` less the latency of market data. Raises `ConfigError` when cadence or sampling makes
    too many stops for the tape's length, and for latency of market data under rules that decide at book rows.
    """
    close_times(tape)
    span = max(0, last_time(tape, rules) - tape.start)
    if span // min(settings.cadence, settings.sample_every) > MOST_STOPS:
        every = f"cadence {settings.cadence} and sample_every {settings.sample_every} ns"
        raise ConfigError(f"planning a replay: {every} over {span} ns make more than {MOST_STOPS} stops; raise them")
    by_rows, by_events = rules.decisions == "book_rows", rules.samples == "events"
    if by_rows and settings.data_latency:
        raise ConfigError(f"planning a replay: {rules.name} decides at book rows, but data_latency is {settings.data_latency}; set it to 0")
    parts = [_final_sample(tape, rules, settings)]
    if by_rows or by_events:
        columns = tape.ts, tape.event, tape.rows_ts, tape.rows_end
        parts.append(_stops_by_rows(*columns, tape.start, settings.cadence, settings.sample_every, by_rows, by_events))
    if not by_rows:
        decisions = _grid_stops(tape, settings.cadence, last_open_time(tape), settings.data_latency, DECISION)
        parts.append(_filter_open(tape, decisions, settings.data_latency))
    if not by_events:
        parts.append(_grid_stops(tape, settings.sample_every, last_time(tape, rules), 0, SAMPLE))
    return _sort_stops(np.concatenate(parts))


def add_wakes(schedule: np.ndarray, tape: Tape, times: np.ndarray, data_latency: int) -> np.ndarray:
    """Add stops that wake the agent (kind WAKE) at `times` (int64, ns, engine time), each after the tape's events of its instant.

    Times outside the tradable period, from the episode's start to the last close, are dropped.
    """
    times = np.unique(times)
    times = times[(times > tape.start - data_latency) & (times <= last_open_time(tape))]
    stops = np.column_stack([np.searchsorted(tape.ts, times, side="right"), times, np.full(len(times), WAKE)])
    return _sort_stops(np.concatenate([schedule, stops]))


def _sort_stops(stops: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(stops[np.lexsort(stops.T[[2, 1, 0]])], np.int64)


def last_time(tape: Tape, rules: RuleSet) -> int:
    """Return the time of the last event, or, under rules whose clock follows rows or events, of the last book row if it is later."""
    ends = tape.ts[-1:].tolist()
    if rules.decisions == "book_rows" or rules.samples == "events":
        ends += tape.rows_ts[-1:].tolist()
    return max(ends, default=tape.start)


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


def _final_sample(tape: Tape, rules: RuleSet, settings: ReplaySettings) -> np.ndarray:
    """Build the sample at the end of the tape; no row if the regular samples include that time."""
    last = last_time(tape, rules)
    on_grid = rules.samples == "grid" and last >= tape.start and (last - tape.start) % settings.sample_every == 0
    return np.array([] if on_grid else [[len(tape), last, FINAL_SAMPLE]], np.int64).reshape(-1, 3)


@compiled_allocating
def _stops_by_rows(ts, event, rows_ts, rows_end, start, cadence, sample_every, decide, sample):
    """Build the stops at which PredictionMarketBench decides (if `decide`) and samples (if `sample`), int64[k, 3].

    A decision is at the first book row at least `cadence` after the last one, a sample after the first event at least `sample_every` after
    the last one. A book row is one event, with or without changes.
    """
    stops = np.empty((1024, 3), np.int64)
    n, called, row = 0, False, 0
    last_call, last_sample = start, start
    if sample:
        stops[0] = 0, start, EVENT_SAMPLE
        n = 1
    for i in range(len(ts) + 1):
        if sample and i > 0 and ts[i - 1] - last_sample >= sample_every:
            kind = event[i - 1] & 0xF
            if kind == PRINT or kind >= HALT:
                last_sample = ts[i - 1]
                stops, n = _append_stop(stops, n, i, last_sample, EVENT_SAMPLE)
        while row < len(rows_ts) and rows_end[row] == i:
            at = rows_ts[row]
            row += 1
            if decide and (not called or at - last_call >= cadence):
                called, last_call = True, at
                stops, n = _append_stop(stops, n, i, at, DECISION)
            if sample and at - last_sample >= sample_every:
                last_sample = at
                stops, n = _append_stop(stops, n, i, at, SAMPLE)
    return stops[:n].copy()


@compiled_allocating
def _append_stop(stops, n, index, time, kind):
    if n == len(stops):
        stops = np.concatenate((stops, np.empty_like(stops)))
    stops[n] = index, time, kind
    return stops, n + 1
