"""Tapes: episodes as flat integer columns, cached as memory-mapped files and read by the compiled engine."""

from bellwether.replay.tape.build import build_tape, load_tape
from bellwether.replay.tape.layout import Tape

__all__ = ["Tape", "build_tape", "load_tape"]
