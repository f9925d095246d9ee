"""The folder of stream recordings as a resource.

Not here: how streams are recorded and read (bellwether/recordings).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from bellwether.errors import BellwetherError
from bellwether.places import place
from bellwether.recordings.catalogue import find_recording, list_recordings
from bellwether.recordings.recording import RecordingStatus

if TYPE_CHECKING:
    from bellwether.recordings.recording import Recording


class RecordingsResource(dg.ConfigurableResource):
    """Recordings as `bellwether record` and `bellwether recordings import` write them."""

    path: str = Field(description="folder or object-store URL; each recording is a folder in it")

    def all(self) -> list[Recording]:
        """Every recording by name."""
        return list_recordings(place(self.path))

    def ended(self, name: str) -> Recording:
        """A recording that nobody is writing; a `dg.Failure` that is not retried for one that is, or that is not there."""
        try:
            found = find_recording(place(self.path), name)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        if found.status is RecordingStatus.RECORDING:
            raise dg.Failure(f"reading the recording {name!r}: it is being written; wait until it has ended", allow_retries=False)
        return found

    def episodes(self) -> dict[str, tuple[Recording, str]]:
        """The recording and the event of every episode that finished recordings hold, by the episode's name."""
        from bellwether.replay.episode_builder import episode_ids

        finished = [found for found in self.all() if found.status is RecordingStatus.FINISHED]
        return {name: (found, event) for found in finished for event, name in episode_ids(found.name, found.about).items()}

    def of_episode(self, name: str) -> tuple[Recording, str]:
        """The recording and the event of an episode; a `dg.Failure` that is not retried when no finished recording holds it."""
        found = self.episodes()
        if name not in found:
            raise dg.Failure(
                f"making the episode {name!r}: no finished recording holds it; there are {', '.join(found) or 'none'}", allow_retries=False
            )
        return found[name]
