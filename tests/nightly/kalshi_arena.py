"""A small arena on the sandbox's Kalshi, like `tests.arena.weeks`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bellwether import concurrency
from bellwether.arena.weekly.context import WeekContext
from bellwether.journal import Journal
from bellwether.venues.http.client import RateLimit
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.worlds import addresses
from tests.arena import weeks
from tests.arena.weeks import Arena

METHODOLOGIES = """
[small-kalshi]
like = "v1-kalshi"
title = "v1 with few markets of Kalshi, with fees"
universe = 60
fees = "venue"

[small-bets-kalshi]
like = "v1-kalshi-realistic"
title = "filled from the book, with small bets"
universe = 60
bet_fraction = "0.02"
"""


@dataclass
class KalshiArena(Arena):
    """Arena whose new cohorts bet on Kalshi."""

    methodology: str | None = "small-kalshi"

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.registry / "methodologies.toml").write_text(weeks.REGISTRY["methodologies.toml"] + METHODOLOGIES)

    def world(self, journal: Journal, run: str = "r") -> WeekContext:
        plain = super().world(journal, run)
        fields = {name: getattr(plain, name) for name in WeekContext.__dataclass_fields__}
        return WeekContext(**{**fields, "kalshi": self.ask_kalshi, "methodology": self.methodology})

    def ask_kalshi(self, work: Callable[[KalshiClient], Awaitable[Any]]) -> Any:
        async def session() -> Any:
            with addresses(self.config, served=False) as venues:
                how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": self.transport(venues.transport)}
                async with KalshiClient(venues.kalshi, **how) as client:
                    return await work(client)

        return concurrency.run(session())
