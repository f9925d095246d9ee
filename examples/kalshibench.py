"""KalshiBench's published numbers: recomputed by its own rules, and corrected.

    python examples/kalshibench.py RESULTS LABELS

RESULTS is a result file or a folder of them, LABELS a file with the outcomes of the entries (docs/kalshibench.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

from bellwether.kalshibench import Examination, examine, read_labels, read_results


def main(results: Path, labels: Path) -> Examination:
    """Print how many published numbers can be reproduced, the scores of each model, and paired differences of corrected scores."""
    examination = examine(read_results(results), read_labels(labels))
    print(examination.counts("model"))
    print(examination.summary())
    for questions, comparison in examination.comparisons().items():
        print(questions)
        print(comparison.pairs)
    return examination


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
