"""An agent of the interface before version 3, in a module without the current prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.replay import Agent, AgentContext


class LegacyScripted(Agent):
    """Call a function at each decision."""

    name = "scripted"

    def __init__(self, what: Callable[[AgentContext], Any]) -> None:
        self.what = what

    def act(self, ctx: AgentContext) -> Any:
        return self.what(ctx)
