"""Run all benchmarks, or those named on the command line, and print each measured ratio with its target."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import benchmarks


def measure(name: str) -> int:
    """Run one benchmark and print a line per measurement. Returns the number of ratios above their target."""
    missed = 0
    for row in importlib.import_module(f"benchmarks.{name}").run():
        good = row["ratio"] <= row["target"]
        missed += not good
        print(f"{'ok  ' if good else 'MISS'} {row['name']}: {row['ratio']:.3g} (at most {row['target']:g})  {row['detail']}", flush=True)
    return missed


def main() -> int:
    """Run the benchmarks. Returns the exit code: 1 if a ratio misses its target, 2 for an unknown name."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    chosen = sys.argv[1:] or found
    unknown = [name for name in chosen if name not in found]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    if len(chosen) == 1:
        return 1 if measure(chosen[0]) else 0
    # Each in a process of its own: what one leaves in memory would count as another's peak.
    codes = [
        subprocess.run([sys.executable, "-m", "benchmarks", name], stderr=subprocess.DEVNULL, check=False).returncode for name in chosen
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
