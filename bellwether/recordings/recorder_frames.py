"""Frames that the recorder itself adds to a recording: the close that each market announced at the time of recording.

The venue overwrites the close of a market that ends early, so the earlier value is not available later.
"""

from __future__ import annotations

from typing import Any

from bellwether.recordings.exchange_times import format_time

#: Type of the frame.
WATCHED = "watch_market"


def watch_frame(ticker: str, close: int) -> dict[str, Any]:
    """Return the frame with the announced close of a market, in ns since 1970, UTC."""
    return {"type": WATCHED, "msg": {"market_ticker": ticker, "close_time": format_time(close).replace("+00:00", "Z")}}
