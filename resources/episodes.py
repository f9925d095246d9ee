"""Dagster resource of episodes (recorded events that agents replay) and of their tapes (episodes in the simulator's integers).

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
    """Folder of episodes, and the folder in which their tapes are cached."""

    path: str = Field(description="folder or object-store URL; each episode is a folder in it")
    tapes: str = Field(description="folder of the cache of tapes; missing tapes are rebuilt")

    @property
    def root(self) -> Path:
        """Folder of episodes, local or in an object store."""
        return place(self.path)

    @property
    def cache(self) -> Path:
        """Folder of tapes."""
        return Path(self.tapes)

    def load(self, name: str) -> Episode:
        """Load and check an episode. Raises `dg.Failure` without retries for a missing or invalid one."""
        from bellwether.replay.episode import load

        try:
            return load(self.root / name)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
