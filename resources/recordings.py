"""The folder of stream recordings as a resource.

Not here: how streams are recorded and read (bellwether/recordings).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from bellwether.errors import BellwetherError

if TYPE_CHECKING:
    from bellwether.recordings.recording import Recording


class RecordingsResource(dg.ConfigurableResource):
    """Recordings as `bellwether record` and `bellwether recordings import` write them."""

    path: str = Field(description="the folder; each recording is a folder in it")

    def all(self) -> list[Recording]:
        """Every recording by name."""
        from bellwether.recordings.catalogue import list_recordings

        return list_recordings(Path(self.path))

    def ended(self, name: str) -> Recording:
        """A recording that nobody is writing; a `dg.Failure` that is not retried for one that is, or that is not there."""
        from bellwether.recordings.catalogue import find_recording
        from bellwether.recordings.recording import Status

        try:
            found = find_recording(Path(self.path), name)
        except BellwetherError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        if found.status is Status.RECORDING:
            raise dg.Failure(f"reading the recording {name!r}: it is being written; wait until it has ended", allow_retries=False)
        return found
