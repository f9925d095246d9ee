"""Programs that start in a process of their own: imported libraries, and the same bytes under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.scoring.forecast_rows import draw_rows, write_rows

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, *words: str, cwd: Path = ROOT, seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    return subprocess.run([sys.executable, "-c", code, *words], env=environment, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (
            "import bellwether.calibration.scores, bellwether.kalshibench, bellwether.report.writer",
            {"sklearn", "scipy", "altair", "pandas", "great_expectations", "dagster"},
        ),
        (
            "from bellwether.checks import rules_for, validate\nfrom bellwether.tables import table\n"
            "from tests.unit.clean.rows import market, markets\n"
            "validate(table('clean/markets'), markets(market('A', status='odd')), rules_for('clean/markets'))",
            {"great_expectations", "pandas", "scipy"},
        ),
        pytest.param(
            "import pkgutil, cli\nfor found in pkgutil.iter_modules(cli.__path__): __import__(f'cli.{found.name}')",
            {"dagster"},
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["calibration", "checks", "commands"],
)
def test_no_heavy_library_is_imported(code: str, heavy: set[str]) -> None:
    loaded = run(f"{code}\nimport sys\nprint(*sys.modules)").split()
    assert heavy.isdisjoint(loaded)


QUESTIONS = """
from tests.unit.questions.test_build import in_series, questions, recipe
rows = [row for number in range(20) for row in in_series(5, f"S{number}")]
print(questions(*rows, of=recipe(sample_size=25)).write_json())
"""
REPORT = """
import hashlib, sys
from pathlib import Path
from bellwether.report.writer import write_report
from tests.unit.report.frames import tiny
write_report(tiny(), sys.argv[1])
print([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(Path(sys.argv[1], "q").iterdir())])
"""
SCORES = """
import hashlib, json
from pathlib import Path
from bellwether.scoring import score
result = score("f.csv", by="category", cluster=["series", "day"], replicates=200, seed=1)
result.write_html("page.html")
whole = [json.dumps(result.to_dict()).encode(), str(result).encode()]
print(json.dumps([hashlib.sha256(one).hexdigest() for one in (*whole, Path("page.html").read_bytes())]))
"""

SANDBOX = """
import hashlib
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.wire import build_event
from bellwether.sandbox.timestamps import DAY
from bellwether.sandbox.world.candles import build_candles
world = GeneratedWorld(7)
kalshi = [market for event in world.day(600) for market in event.markets]
text = [(world.body(market, DAY * 20_300), build_candles(market.tape(), 60, 0, market.life.final)) for market in kalshi]
text += [build_event(event, DAY * 20_300) for event in GeneratedPolymarket(world).day(600)]
print(len(text), hashlib.sha256(repr(text).encode()).hexdigest())
"""


def test_the_sandbox_is_the_same_under_any_hash_seed() -> None:
    first, second = (run(SANDBOX, seed=seed) for seed in ("1", "2"))
    assert first == second
    assert int(first.split()[0]) > 20


@pytest.mark.nightly
def test_questions_are_the_same_under_any_hash_seed() -> None:
    first, second = (run(QUESTIONS, seed=seed) for seed in ("1", "2"))
    assert first == second
    assert "S1" in first


@pytest.mark.nightly
def test_reports_are_the_same_under_any_hash_seed(tmp_path: Path) -> None:
    first, second = (run(REPORT, str(tmp_path / seed), seed=seed) for seed in ("1", "2"))
    assert first == second


@pytest.mark.nightly
def test_scores_pages_and_figures_are_the_same_under_any_hash_seed(tmp_path: Path) -> None:
    write_rows(tmp_path, "f.csv", draw_rows())
    first, second = (run(SCORES, cwd=tmp_path, seed=seed) for seed in ("1", "2"))
    assert first == second
