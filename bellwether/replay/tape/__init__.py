"""Tapes: an episode converted once to flat integer columns, kept as a memory-mapped cache, and read by the compiled engine."""

from bellwether.replay.tape.build import build, tape_of
from bellwether.replay.tape.layout import Tape

__all__ = ["Tape", "build", "tape_of"]
