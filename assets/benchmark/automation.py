"""When forecasts are made by themselves."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from orchestration.automation import FOLLOW_ONCE, RunsAutomatically


class TakesPartAutomatically(RunsAutomatically):
    """True for forecasters that run without being asked."""

    dimension: ClassVar[str] = "forecaster"

    @property
    def name(self) -> str:
        """How it is shown in the UI."""
        return "takes part without being asked"

    def names(self) -> Collection[str]:
        """Forecasters that cost nothing or that the settings name."""
        from bellwether.forecasting import competitors

        return competitors()

    def leaves(self, partition: str) -> bool:
        """Whether its questions are the first N of a release: they are answered by whom a person asks."""
        from bellwether.questions import ReleaseName

        return ReleaseName.parse(partition.rpartition("|")[2]).size is not None


#: Forecasts follow their questions.
FOLLOW_UNASKED = (TakesPartAutomatically() & FOLLOW_ONCE).with_label(
    "follows its questions, if the forecaster takes part without being asked"
)
