"""What a portfolio is called: its results stand under this name where those of an episode stand under the episode's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

#: Between the episodes of a portfolio's name; no episode of a portfolio has it in its own.
SEPARATOR = "+"
#: A name of more characters is cut, since files and partitions are called by it.
LONGEST_NAME = 100


def portfolio_name(episodes: Sequence[str]) -> str:
    """The episodes' names joined with `+`; where that is longer than `LONGEST_NAME`, the first, how many follow, and a digest of all names."""
    name = SEPARATOR.join(episodes)
    if len(name) <= LONGEST_NAME or len(episodes) == 1:
        return name
    digest = hashlib.sha256("\n".join(episodes).encode()).hexdigest()
    return f"{episodes[0]}{SEPARATOR}{len(episodes) - 1}-more-{digest[:12]}"


def is_portfolio(episode: str) -> bool:
    """Whether results under this name are of a portfolio."""
    return SEPARATOR in episode
