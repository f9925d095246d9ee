"""Resources of stream recordings, and of episodes (recorded events that agents replay).

Not here: how streams are recorded and read (bellwether/recordings), and how episodes are built and replayed (bellwether/replay).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from bellwether.errors import BellwetherError
from bellwether.places import place
from bellwether.recordings.recording import RecordingStatus, find_recording, list_recordings

if TYPE_CHECKING:
    from bellwether.recordings.recording import Recording
    from bellwether.replay.episode.folder import Episode


class RecordingsResource(dg.ConfigurableResource):
    """Folder of recordings."""

    path: str = Field(description="folder or object-store URL; each recording is a folder in it")

    def all(self) -> list[Recording]:
        """Return all recordings, ordered by name."""
        return list_recordings(place(self.path))

    def load_ended(self, name: str) -> Recording:
        """Load a recording that is no longer being written. Raises `dg.Failure` without retries if the recording is missing or in progress."""
        try:
            recording = find_recording(place(self.path), name)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        if recording.status is RecordingStatus.RECORDING:
            raise dg.Failure(f"reading the recording {name!r}: it is in progress; wait for its end", allow_retries=False)
        return recording

    def episodes(self) -> dict[str, tuple[Recording, str]]:
        """Return the recording and the event of each episode that finished recordings contain, by name of the episode."""
        from bellwether.replay.episode_builder.build import episode_ids

        finished = [recording for recording in self.all() if recording.status is RecordingStatus.FINISHED]
        return {name: (recording, event) for recording in finished for event, name in episode_ids(recording.name, recording.about).items()}

    def find_episode(self, name: str) -> tuple[Recording, str]:
        """Return the recording and the event of an episode. Raises `dg.Failure` without retries if no finished recording contains the episode."""
        episodes = self.episodes()
        if name not in episodes:
            raise dg.Failure(
                f"making the episode {name!r}: no finished recording contains it; there are {', '.join(episodes) or 'none'}",
                allow_retries=False,
            )
        return episodes[name]


class EpisodesResource(dg.ConfigurableResource):
    """Folder of episodes."""

    path: str = Field(description="folder or object-store URL; each episode is a folder in it")

    @property
    def root(self) -> Path:
        """Folder of episodes, local or in an object store."""
        return place(self.path)

    def load(self, name: str) -> Episode:
        """Load and check an episode. Raises `dg.Failure` without retries for a missing or invalid one."""
        from bellwether.replay.episode.folder import load

        try:
            return load(self.root / name)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
