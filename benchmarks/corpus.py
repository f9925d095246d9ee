"""Corpus of documents of 500 words: median time of a search relative to 50 ms, and memory of indexing relative to 2 GB.

A search compares the same number of documents in a corpus of any size; the time depends on the size only through full-text search. Words are drawn from
a distribution with a heavy head, and queries of six words from the same, so that some are in most documents.
"""

from __future__ import annotations

import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from bellwether.corpus import Corpus

#: The targets hold for 500,000 documents: set this to measure them, in about half an hour.
DOCUMENTS = 20_000
WORDS, QUERIES, VOCABULARY = 500, 200, 200_000
MOST_MS, MOST_MB = 50, 2_000
START = datetime(2025, 1, 1, tzinfo=UTC)


def _draw(rng: random.Random, count: int) -> list[str]:
    return [f"w{min(int(rng.paretovariate(0.25)), VOCABULARY):x}" for _ in range(count)]


def _documents(rng: random.Random) -> Iterator[bytes]:
    for number in range(DOCUMENTS):
        words = _draw(rng, WORDS)
        published = START + timedelta(minutes=number)
        yield orjson.dumps({"id": str(number), "title": " ".join(words[:8]), "text": " ".join(words), "published_at": published}) + b"\n"


def run() -> list[dict[str, Any]]:
    """Return the measured ratios."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "corpus.jsonl")
        with source.open("wb") as file:
            file.writelines(_documents(rng))
        begun = time.process_time()
        with Corpus.open(source, Path(folder, "index")) as corpus:
            seconds = time.process_time() - begun
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            as_of, spent = START + timedelta(minutes=DOCUMENTS * 4 // 5), []
            for _ in range(QUERIES):
                query, begun = " ".join(_draw(rng, 6)), time.process_time()
                corpus.search(query, as_of)
                spent.append(1000 * (time.process_time() - begun))
    median = statistics.median(spent)
    detail = f"{DOCUMENTS:,} documents indexed in {seconds:.0f} CPU s"
    return [
        {"name": "search of the corpus", "ratio": median / MOST_MS, "target": 1, "detail": f"median {median:.1f} ms of CPU, {detail}"},
        {"name": "memory of indexing", "ratio": megabytes / MOST_MB, "target": 1, "detail": f"{megabytes:.0f} MB, {detail}"},
    ]
