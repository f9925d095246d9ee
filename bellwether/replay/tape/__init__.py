"""Tapes: episodes as flat columns of integers for the compiled engine."""

from bellwether.replay.tape.build import build_tape, load_tape
from bellwether.replay.tape.layout import Tape

__all__ = ["Tape", "build_tape", "load_tape"]
