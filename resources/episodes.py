"""Folders of episodes and of their tapes as a resource.

Not here: how episodes are built, read and replayed (bellwether/replay).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from bellwether.errors import BellwetherError
from bellwether.places import place

if TYPE_CHECKING:
    from bellwether.replay.episode import Episode


class EpisodesResource(dg.ConfigurableResource):
    """Episodes as `bellwether episode` and the graph write them."""

    path: str = Field(description="folder or object-store URL; each episode is a folder in it")
    tapes: str = Field(description="folder of the cache of tapes; what is missing in it is made again")

    @property
    def root(self) -> Path:
        """The folder of episodes, local or in an object store."""
        return place(self.path)

    @property
    def cache(self) -> Path:
        """The folder of tapes."""
        return Path(self.tapes)

    def load(self, name: str) -> Episode:
        """An episode, checked once for all backtests of it; a `dg.Failure` that is not retried when it is not there or not sound."""
        from bellwether.replay.episode import load

        try:
            return load(self.root / name, cache=self.cache)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
