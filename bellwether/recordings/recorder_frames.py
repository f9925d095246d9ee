"""Notes of the recorder, stored as frames among those of the venue: the close that each market announced at the time of recording.

The venue rewrites the close of a market that ends early, so that the earlier value cannot be found out later.
"""

from __future__ import annotations

from typing import Any

from bellwether.recordings.exchange_times import format_time

#: Type of the note.
WATCHED = "watch_market"


def watch_frame(ticker: str, close: int) -> dict[str, Any]:
    """Return the note on a market; `close` is the announced one, in nanoseconds since 1970, UTC."""
    return {"type": WATCHED, "msg": {"market_ticker": ticker, "close_time": format_time(close).replace("+00:00", "Z")}}
