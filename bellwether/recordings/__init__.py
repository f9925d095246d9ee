"""Recordings of a venue's stream: append-only files of verbatim frames, their gaps, and the rebuilt books."""
