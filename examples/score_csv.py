"""Score the forecasts of a CSV file: tables on the terminal, figures, and one page with interactive diagrams.

python examples/score_csv.py [FILE] [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from bellwether.scoring import ScoreResult, plot_differences, plot_reliability, score


def main(file: Path, folder: Path) -> ScoreResult:
    """Print the scores of `file`, and write figures and a page into `folder`."""
    result = score(file, by="series")
    print(result)

    best = result.ranking["forecaster"][0]
    forecasts = result.forecasts.filter(forecaster=best)
    chart = plot_reliability(forecasts["probability"], forecasts["outcome"], forecasts["cluster_0"], label=best)
    folder.mkdir(parents=True, exist_ok=True)
    chart.save(folder / "reliability.png")
    plot_differences(result).save(folder / "differences.png")
    result.write_html(folder / "scores.html")
    return result


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]]
    main(*given, *(Path(__file__).with_name("forecasts.csv"), Path("scores"))[len(given) :])
