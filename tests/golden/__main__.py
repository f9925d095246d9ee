"""Run the golden test, or rewrite its files: `python -m tests.golden` replays it, rewrites the digests and prints each difference.

`record` first records answers and captures again. `replay HOME` only replays, into HOME.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.golden.digests import DIGESTS, differences, digests, read, write
from tests.golden.scenario import record, replay


def main(words: list[str]) -> int:
    """Run one of the three commands."""
    if words[:1] == ["replay"]:
        replay(Path(words[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if words == ["record"]:
            record(Path(folder) / "recorded")
        home = Path(folder) / "home"
        replay(home)
        new = digests(home)
    old = read()
    sys.stdout.write("".join(f"{line}\n" for line in differences(old, new)) or "unchanged\n")
    write(new)
    sys.stdout.write(f"wrote {DIGESTS}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
