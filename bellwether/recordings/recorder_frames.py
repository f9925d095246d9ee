"""Notes of a recorder as frames among the venue's: the close that each market announced when it was recorded.

The venue rewrites the close of a market that ends early, so that the close known at the time cannot be found out later.
"""

from __future__ import annotations

from typing import Any

from bellwether.recordings.exchange_times import format_time

#: Type of the note.
WATCHED = "watch_market"


def watch_frame(ticker: str, close: int) -> dict[str, Any]:
    """The note on a market; `close` is the announced one, nanoseconds since 1970, UTC."""
    return {"type": WATCHED, "msg": {"market_ticker": ticker, "close_time": format_time(close).replace("+00:00", "Z")}}
