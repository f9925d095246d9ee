"""The sandbox's captures as recordings and episodes for tests."""

from __future__ import annotations

from pathlib import Path

from bellwether.recordings.capture_import import import_captures
from bellwether.recordings.recording import Recording
from bellwether.sandbox.replayer import CAPTURES

#: A game of two markets, a ladder of five with a gap of 90 seconds, and 15 minutes whose outcome contradicts the last price.
GAME, LADDER, SHORT = "KXMLBGAME-26SEP282300NYYBOS", "KXHIGHNY-26SEP29", "KXBTC15M-26SEP301500"


def import_event(root: Path, event: str) -> Recording:
    """Import the capture of an event as a recording below `root`; its name is the event's ticker."""
    [recording] = import_captures(root, CAPTURES / f"{event}.json.gz")
    return recording
