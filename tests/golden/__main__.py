"""Rewrite the digests of the golden test: `python -m tests.golden` builds the demo home and prints each difference."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.demo_home import build
from tests.golden.digests import DIGESTS, differences, digests, read, write


def main() -> None:
    """Build the demo home, rewrite its digests and print each difference."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        build(home)
        new = digests(home)
    sys.stdout.write("".join(f"{line}\n" for line in differences(read(), new)) or "unchanged\n")
    write(new)
    sys.stdout.write(f"wrote {DIGESTS}\n")


if __name__ == "__main__":
    main()
