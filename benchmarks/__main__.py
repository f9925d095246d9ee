"""Runs every benchmark of this folder, or those named on the command line, and prints ratio and target of each."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    """Print one line per measurement; the exit code is 1 when a ratio is above its target."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    chosen = sys.argv[1:] or found
    unknown = [name for name in chosen if name not in found]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    missed = 0
    for name in chosen:
        for row in importlib.import_module(f"benchmarks.{name}").run():
            good = row["ratio"] <= row["target"]
            missed += not good
            print(
                f"{'ok  ' if good else 'MISS'} {row['name']}: {row['ratio']:.3g} (at most {row['target']:g})  {row['detail']}", flush=True
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
