"""Values computed once per tape and kept with it, for any number of backtests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from bellwether.replay.tape.layout import Tape

Made = TypeVar("Made")


def per_tape(make: Callable[[Tape], Made]) -> Callable[[Tape], Made]:
    """`make`, called once for each tape object; threads wait for one another."""
    known: WeakKeyDictionary[Tape, Made] = WeakKeyDictionary()
    lock = threading.Lock()

    @wraps(make)
    def remembered(tape: Tape) -> Made:
        with lock:
            if tape not in known:
                known[tape] = make(tape)
            return known[tape]

    return remembered
