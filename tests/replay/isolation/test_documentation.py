"""The page on isolation is true: its example runs, its options and failures are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bellwether.replay import load
from cli.backtest import backtest
from tests.replay.episode.folders import Native

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "isolation.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = re.findall(r"```python\n(.*?)```", (DOCS / "agents.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "my_file.py").write_text(first, encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "isolation.md", "exec"), {"episode": load(Native().write(tmp_path / "KXTEST-26JAN20"))})
    assert capsys.readouterr().out.startswith("None kept from it: ")


def test_the_options_shown_have_the_defaults_shown() -> None:
    shown = dict(re.findall(r"\| `--([a-z-]+)` \| (\d+)", PAGE))
    options = {option.opts[0].removeprefix("--"): option.default for option in backtest.params}
    assert len(shown) == 4
    assert {name: float(value) for name, value in shown.items()} == {name: options[name] for name in shown}
