"""Compiled: the way over the tape from one stop to the next. Stops are decisions and samples, which no agent moves, arrivals and expiries, and what an
agent is to be told of its orders. `core` is the engine's state (`arena`), times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_AT_NEWS,
    H_CASH,
    H_CURSOR,
    H_DATA_LATENCY,
    H_EQUITY,
    H_EXPIRY,
    H_EXPIRY_AT,
    H_FAILED,
    H_FILLS,
    H_FILLS_BEFORE,
    H_FILLS_THEN,
    H_FINAL_CASH,
    H_FLAGGED,
    H_FULL,
    H_L_HEAD,
    H_L_TAIL,
    H_LAST,
    H_M_HEAD,
    H_M_TAIL,
    H_MID_EQUITY,
    H_NOW,
    H_OVER,
    H_SAMPLES,
    H_STEP,
    H_STIRRED,
    H_STOP,
    H_TIME,
    H_TOLD,
    H_U_TAIL,
    H_U_TOLD,
    H_WATCH,
    M_AMEND,
    M_AT,
    M_CANCEL,
    M_KIND,
    M_LOTS,
    M_ORDER,
    M_PLACE,
    M_PRICE,
    M_TIME,
    NEVER,
    WATCH_FILLS,
    WATCH_ORDERS,
)
from bellwether.replay.engine.codes import S_CASH, S_EQUITY, S_MID_EQUITY, S_OPT, S_PESS, S_TS, Reason
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.events import after, cross_all, cross_flagged, events, has_room, stop_for_room
from bellwether.replay.engine.known import L_LEARNED, is_late, learn
from bellwether.replay.engine.matching import amend_now, arrive, cancel_now, cancel_resting, expire
from bellwether.replay.engine.money import value_account
from bellwether.replay.engine.schedule import DECISION, WAKE
from bellwether.replay.engine.updates import note, updates_fit, watches_orders
from bellwether.replay.engine.words import (
    cores_of,
    event_of,
    fills_of,
    grid_of,
    ledgers_of,
    messages_of,
    orders_of,
    samples_of,
    schedule_of,
    seen_of,
    ts_of,
)

_AGENT = int(Reason.AGENT)

_EXPIRY, _ARRIVAL, _LEARNED, _SCHEDULED = range(4)

#: What `advance` stops for: a decision, or what the agent is to be told at once.
AT_DECISION, AT_NEWS = 1, 2


@compiled
def advance(sim):
    """Go on to the next decision, AT_DECISION, or to news where they are stops too, AT_NEWS. 0 when none is left, and the tape is then processed
    to its end, or when an array must grow first.
    """
    ts, event, grid, schedule, messages = ts_of(sim), event_of(sim), grid_of(sim), schedule_of(sim), messages_of(sim)
    cores, orders, fills, samples = cores_of(sim), orders_of(sim), fills_of(sim), samples_of(sim)
    main = cores[0]
    if main[H_OVER] == 1 or main[H_FAILED] == 1:
        return 0
    seen, ledgers = seen_of(sim)[0], ledgers_of(sim)
    watching = main[H_WATCH] != 0
    while main[H_FULL] == 0:
        if watches_orders(main) and not updates_fit(sim, 0):
            main[H_FULL] = 1
            return 0
        row = main[H_STOP]
        scheduled = row < schedule.shape[0]
        index, time = (schedule[row, 0], schedule[row, 1]) if scheduled else (len(ts), NEVER)
        stop, whose = _SCHEDULED, 0
        if main[H_L_HEAD] < main[H_L_TAIL] and ledgers[main[H_L_HEAD], L_LEARNED] <= main[H_LAST]:
            then = ledgers[main[H_L_HEAD], L_LEARNED]
            at = after(ts, main[H_CURSOR], then)
            if at < index or (at == index and then <= time):
                stop, index, time = _LEARNED, at, then
        for a in range(main[H_ACCOUNTS]):
            core = cores[a]
            if core[H_EXPIRY] != NEVER or core[H_M_HEAD] < core[H_M_TAIL]:
                earlier, index, time = _earlier_stop(ts, core, messages[a], index, time)
                if earlier != _SCHEDULED:
                    stop, whose = earlier, a
        if not events(ts, event, cores, orders, fills, index):
            return 0
        cursor = main[H_CURSOR]
        if main[H_STIRRED] == 1 and (cursor == len(ts) or ts[cursor] != ts[cursor - 1]):
            if not cross_all(cores, orders, fills, cursor, ts[cursor - 1]):
                return 0
            main[H_STIRRED] = 0
            if _is_news(sim, ts[cursor - 1]):
                return _news(sim, ts[cursor - 1])
            continue
        if stop == _LEARNED:
            learn(sim, time)
            if _is_told(main, seen):
                return _news(sim, time)
            continue
        if stop == _SCHEDULED:
            if index > 0 and not cross_all(cores, orders, fills, index, ts[index - 1]):
                return 0
            if not scheduled:
                _end(sim)
                return 0
            found = _scheduled(sim, cores, samples, schedule, row, time)
            if found != 0:
                return found
            continue
        # An arrival or an expiry is of one account: the others go on with the instant.
        core = cores[whose]
        if core[H_FLAGGED] == 1:
            short = cross_flagged(core, orders[whose], fills, whose, ts[index - 1])
            if short >= 0:
                stop_for_room(cores, index, short)
                return 0
        if stop == _EXPIRY:
            expire(core, orders[whose], time)
        elif not _deliver(sim, core, grid, orders[whose], fills, whose, messages[whose], time):
            stop_for_room(cores, index, 0)
            return 0
        if watching and _is_news(sim, time):
            return _news(sim, time)
    return 0


@compiled
def _is_news(sim, time):
    """Note what has become of orders at `time`; whether the agent is to be told of it at once."""
    main = cores_of(sim)[0]
    if watches_orders(main):
        note(sim, time)
    return not is_late(main) and _is_told(main, main)


@inlined
def _is_told(main, seen):
    """Return whether the agent knows of fills or updates of orders that it is to be told of."""
    if main[H_WATCH] & WATCH_FILLS != 0 and seen[H_FILLS] > main[H_TOLD]:
        return True
    return main[H_WATCH] & WATCH_ORDERS != 0 and seen[H_U_TAIL] > main[H_U_TOLD]


@compiled
def _news(sim, time):
    """The agent is to be told what it has learned of its orders by `time`."""
    cores, seen = cores_of(sim), seen_of(sim)[0]
    main = cores[0]
    main[H_TOLD], main[H_U_TOLD], main[H_AT_NEWS] = seen[H_FILLS], seen[H_U_TAIL], 1
    for a in range(main[H_ACCOUNTS]):
        core = cores[a]
        core[H_TIME], core[H_NOW] = time, time + core[H_DATA_LATENCY]
    return AT_NEWS


@compiled
def _end(sim):
    cores = cores_of(sim)
    if is_late(cores[0]):
        learn(sim, NEVER)
    for a in range(cores[0, H_ACCOUNTS]):
        cores[a, H_OVER], cores[a, H_TIME] = 1, cores[0, H_LAST]


@compiled
def _scheduled(sim, cores, samples, schedule, row, time):
    """A decision, AT_DECISION; news, AT_NEWS; or a sample, 0."""
    decides, wakes = schedule[row, 2] == DECISION, schedule[row, 2] == WAKE
    if (decides or wakes) and is_late(cores[0]):
        learn(sim, time)
    for a in range(cores[0, H_ACCOUNTS]):
        core = cores[a]
        core[H_STOP], core[H_TIME] = row + 1, time
        if decides or wakes:
            core[H_AT_NEWS] = 1 if wakes else 0
            core[H_NOW] = time + core[H_DATA_LATENCY]
            if decides:
                core[H_STEP] += 1
                core[H_FILLS_BEFORE], core[H_FILLS_THEN] = core[H_FILLS_THEN], seen_of(sim)[0, H_FILLS]
        else:
            _sample(core, samples[a], time, row + 1 == schedule.shape[0])
    return AT_DECISION if decides else AT_NEWS if wakes else 0


@inlined
def _earlier_stop(ts, core, messages, index, time):
    """(what, index, time) of the expiry or arrival that comes before the scheduled stop at (index, time), if any does. None after the tape's end."""
    stop = _SCHEDULED
    if core[H_M_HEAD] < core[H_M_TAIL]:
        message = core[H_M_HEAD]
        at, then = messages[message, M_AT], messages[message, M_TIME]
        if then <= core[H_LAST] and (at < index or (at == index and then <= time)):
            stop, index, time = _ARRIVAL, at, then
    then = core[H_EXPIRY]
    if then <= core[H_LAST]:
        if core[H_EXPIRY_AT] < 0:
            core[H_EXPIRY_AT] = after(ts, core[H_CURSOR], then - 1)
        at = core[H_EXPIRY_AT]
        if at < index or (at == index and then <= time):
            stop, index, time = _EXPIRY, at, then
    return stop, index, time


@compiled
def _deliver(sim, core, grid, orders, fills, a, messages, time):
    """Let the messages under way that come at `time` arrive. False when an array must grow first."""
    message, tail = core[H_M_HEAD], core[H_M_TAIL]
    core[H_TIME] = time
    while message < tail and messages[message, M_TIME] == time:
        watched = a == 0 and watches_orders(core)
        if not has_room(core, fills, 0) or (watched and not updates_fit(sim, 0)):
            return False
        kind, o = messages[message, M_KIND], messages[message, M_ORDER]
        message += 1
        core[H_M_HEAD] = message
        if kind == M_PLACE:
            arrive(core, grid, orders, fills[a], o, time)
        elif kind == M_CANCEL:
            cancel_now(core, orders, o, _AGENT, time)
        elif kind == M_AMEND:
            amend_now(core, grid, orders, fills[a], o, messages[message - 1, M_PRICE], messages[message - 1, M_LOTS], time)
        else:
            cancel_resting(core, orders, o, time)
        if watched:
            note(sim, time)
    if message == tail:
        core[H_M_HEAD], core[H_M_TAIL] = 0, 0
    return True


@compiled
def _sample(core, samples, time, final):
    """Log cash and equity; the last row is cash alone where the rules say so."""
    value_account(core)
    n = core[H_SAMPLES]
    core[H_SAMPLES] = n + 1
    samples[n, S_TS], samples[n, S_CASH] = time, core[H_CASH]
    cash_only = final and core[H_FINAL_CASH] == 1
    samples[n, S_EQUITY] = core[H_CASH] if cash_only else core[H_EQUITY]
    samples[n, S_MID_EQUITY] = core[H_CASH] if cash_only else core[H_MID_EQUITY]
    samples[n, S_PESS] = samples[n, S_OPT] = samples[n, S_EQUITY]
