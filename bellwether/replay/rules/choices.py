"""Types of a rule set's fields: the texts that each field may have."""

from __future__ import annotations

from typing import Literal

Venue = Literal["kalshi", "polymarket"]
Decisions = Literal["grid", "book_rows"]
Samples = Literal["grid", "events"]
Tie = Literal["aligned", "books_first"]
Join = Literal["display", "behind_own"]
Netting = Literal["net", "apart"]
MarkMissing = Literal["zero", "fifty"]
MakerSellPrice = Literal["own", "canonical"]
Grid = Literal["market", "any"]
Queue = Literal["trade_only", "proportional", "optimistic"]
FillRatio = Literal["orders", "pmb"]
FinalCurve = Literal["equity", "cash"]
Observations = Literal["live", "frozen"]
