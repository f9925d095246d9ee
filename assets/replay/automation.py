"""When backtests are made by themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from orchestration.automation import FOLLOW_ONCE, RunsAutomatically


class TradesAutomatically(RunsAutomatically):
    """True for agents that run without being asked."""

    dimension: ClassVar[str] = "agent"

    @property
    def name(self) -> str:
        """How it is shown in the UI."""
        return "trades without being asked"

    def names(self) -> Collection[str]:
        """Agents that ask no model, or one that the settings name."""
        from bellwether.replay.registry import competitors

        return competitors()


#: Backtests follow their episodes.
FOLLOW_AGENTS = (TradesAutomatically() & FOLLOW_ONCE).with_label("follows its episode, if the agent trades without being asked")
