"""Run the features of the core and print their results as JSON: score forecasts of a program and of a file, draw diagrams, backtest an agent.

    python core_program.py EPISODE

The program runs with the core's packages alone, so it imports nothing from the tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

AGENT = '''
from bellwether.replay import CONTRACT, YES, Agent


class TenOfTheFirst(Agent):
    """Buys ten contracts of YES in the first market at the ask, once."""

    def act(self, ctx):
        market = ctx.market(ctx.tickers[0])
        if not market.yes_position and market.yes_ask:
            ctx.buy(market.ticker, YES, 10 * CONTRACT, market.yes_ask)
'''


def scores() -> dict[str, object]:
    """Score the example of the README."""
    from bellwether.calibration import compare, evaluate

    p, y, series = [0.9, 0.2, 0.6, 0.1], [1, 0, 0, 0], ["a", "a", "b", "c"]
    result = evaluate(p, y, clusters=series)
    brier, comparison = result["brier"], compare({"mine": p, "half": [0.5] * 4}, y, clusters=series)
    return {
        "brier": [brier.value, brier.lower, brier.upper],
        "metrics": result.frame()["metric"].to_list(),
        "pairs": comparison.pairs.height,
        "ranking": comparison.ranking["forecaster"].to_list(),
    }


def diagram() -> int:
    """Return the size of a reliability diagram in bytes."""
    import polars as pl

    from bellwether.calibration import corp_curve, reliability_bands, reliability_bins
    from bellwether.figures.canvas import png
    from bellwether.figures.reliability import reliability_diagram

    p, y = [index / 40 for index in range(41)], [index % 3 == 0 for index in range(41)]
    mine = pl.lit("mine").alias("forecaster")
    chart = reliability_diagram(
        reliability_bins(p, y).with_columns(mine),
        "Reliability",
        bands=reliability_bands(p).with_columns(mine),
        curves=corp_curve(p, y).with_columns(mine),
    )
    picture = png(chart)
    assert picture.startswith(b"\x89PNG")
    return len(picture)


def file() -> dict[str, object]:
    """Score the README's example as a file. Returns the scores of the command, of the page and of the figures."""
    from click.testing import CliRunner

    from cli.main import main

    Path("forecasts.csv").write_text("series,probability,outcome\na,90,yes\na,20,no\nb,60,no\nc,10,no\n")
    refused = CliRunner().invoke(main, ["score", "forecasts.csv"])
    assert refused.exit_code == 1
    percent = ("score", "forecasts.csv", "--percent", "probability")
    assert "4 questions, 1 forecaster, 3 clusters: series" in call(*percent, "--html", "page.html", "--figures", "figures")
    (brier,) = (row for row in json.loads(call(*percent, "--json"))["scores"] if row["metric"] == "brier")
    page = Path("page.html").read_text(encoding="utf-8")
    return {
        "brier": [brier["value"], brier["lower"], brier["upper"]],
        "n": brier["n"],
        "clusters": brier["n_clusters"],
        "figures": sorted(path.name for path in Path("figures").iterdir()),
        "page": len(page),
        "plots": page.count('class="card chart"'),
        "refused": refused.stderr,
    }


def call(*words: str) -> str:
    """Return the output of a command that must succeed."""
    from click.testing import CliRunner

    from cli.main import main

    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, f"{words}: {result.output} {result.exception!r}"
    return result.stdout


def replay(episode: Path) -> dict[str, object]:
    """Backtest an agent from a file in an imported episode. Returns the row of the backtest, its tables and the agent's orders."""
    import polars as pl

    Path("ten.py").write_text(AGENT)
    call("episode", "import", str(episode), "--name", "imported")
    call("episode", "validate", "imported")
    call("backtest", "--agent", "ten.py:TenOfTheFirst", "--episode", "imported", "--out", "results")
    (row,) = json.loads(call("trading", "results", "--json"))["agents"]
    call("trading", "results", "--report", "reports")
    return {
        "pnl": str(row["pnl"]),
        "episodes": [one["episode"] for one in json.loads(call("episode", "list", "--json"))],
        "agents": [one["name"] for one in json.loads(call("agents", "--json"))],
        "fills": pl.read_parquet("results/fills.parquet").height,
        "figures": sorted({path.name.split("_")[0] for path in Path("reports").rglob("*.png")}),
    }


if __name__ == "__main__":
    result = {"scores": scores(), "diagram": diagram(), "file": file(), "replay": replay(Path(sys.argv[1]))}
    sys.stdout.write(json.dumps({**result, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
