"""Recordings of a venue's stream: append-only files of verbatim frames, what is missing in them, and the books that they rebuild."""
