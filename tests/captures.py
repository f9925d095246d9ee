"""Recordings and episodes of captures: those of the sandbox, and those of the real venue, built once for all processes of a test run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from filelock import FileLock

from bellwether.recordings.captures import import_captures
from bellwether.recordings.gaps import GapReport
from bellwether.recordings.recording import Recording
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import Episode, load, write
from bellwether.replay.episode_builder.build import Outcomes, build_recording, episode_ids
from bellwether.sandbox.replayer import CAPTURES
from tests.unit.recordings.book_replay import BookCheck, check_books

T = TypeVar("T")
#: A game of two markets, a ladder of five with a gap of 90 seconds, and 15 minutes whose outcome contradicts the last price.
GAME, LADDER, SHORT = "KXMLBGAME-26SEP282300NYYBOS", "KXHIGHNY-26SEP29", "KXBTC15M-26SEP301500"


def import_event(root: Path, event: str) -> Recording:
    """Import the sandbox's capture of an event as a recording below `root`; its name is the event's ticker."""
    [recording] = import_captures(root, CAPTURES / f"{event}.json.gz")
    return recording


@dataclass(frozen=True, slots=True)
class BuiltEpisode:
    """Episode with its recording and draft."""

    recording: Recording
    draft: Content
    episode: Episode


class Captures:
    """Captures below `source`, imported and built at first use. The results are shared; tests must not change them."""

    def __init__(self, source: Path, root: Path) -> None:
        self._source, self._root = source, root
        root.mkdir(exist_ok=True)

    def recordings(self, folder: str) -> list[Recording]:
        """Return a recording of each capture in the folder."""
        return self._once(f"{folder}.recordings", lambda: import_captures(self._root / folder, self._source / folder))

    def book_checks(self, folder: str) -> list[tuple[BookCheck, GapReport]]:
        """Return the check of books and the gaps of each recording."""
        return self._once(f"{folder}.checks", lambda: [check_books(recording) for recording in self.recordings(folder)])

    def built(self, folder: str) -> list[BuiltEpisode]:
        """Return the episodes of all recordings."""
        drafts = self._once(f"{folder}.drafts", lambda: [(made, draft) for made in self.recordings(folder) for draft in self._write(made)])
        return [BuiltEpisode(recording, draft, load(self._folder(draft))) for recording, draft in drafts]

    def _write(self, recording: Recording) -> list[Content]:
        drafts = build_recording(recording, outcomes=Outcomes(infer=True))
        assert [draft.metadata.episode_id for draft in drafts] == list(episode_ids(recording.name, recording.about).values())
        for draft in drafts:
            write(self._folder(draft), draft)
        return drafts

    def _folder(self, draft: Content) -> Path:
        return self._root / "episodes" / draft.metadata.episode_id

    def _once(self, name: str, make: Callable[[], T]) -> T:
        cached = self._root / f"{name}.pickle"
        with FileLock(f"{cached}.lock"):
            if not cached.exists():
                value = make()
                new = cached.with_suffix(".new")
                new.write_bytes(pickle.dumps(value))
                new.rename(cached)
        return cast(T, pickle.loads(cached.read_bytes()))
