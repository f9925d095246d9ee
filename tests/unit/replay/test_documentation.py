"""The pages on the replay are true: their examples run, and their tables are complete."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.replay import CENT, Agent, AgentContext, Backtest, BacktestSettings, load, run
from bellwether.replay.agents.llm import LLMAgent
from bellwether.replay.agents.llm.tools import Toolbox
from bellwether.replay.agents.loader import load_agent_class
from bellwether.replay.agents.records import Fill, Position, Trade
from bellwether.replay.agents.views import Market, Order, Quotes
from bellwether.replay.engine.codes import O_PRICE, O_SENT, O_SIDE, Reason
from bellwether.replay.engine.latencies import LatencySeries
from bellwether.replay.episode import metadata, validate
from bellwether.replay.episode.writer import SERIES, book_schema, trade_schema
from bellwether.replay.registry import agents
from bellwether.replay.rules import RuleSet, rule_set, rule_sets
from bellwether.replay.units import NO, SECOND, YES
from bellwether.tables.replay import HORIZONS_S, METRICS
from cli.backtest import backtest
from cli.main import main
from tests.unit.replay.agents.scenes import TRADE, market, settings
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.llm.scripted_models import Scripted, episode, trade

DOCS = Path(__file__).resolve().parents[3] / "docs"
CADENCE = 5 * SECOND


#: Parts of agents.md that are read as pages.
PARTS = {"isolation": "Isolated agents", "llm-agent": "Language models as traders"}


def page(name: str) -> str:
    """Return a page, or a part of agents.md with its headings raised by one level."""
    if name not in PARTS:
        return (DOCS / f"{name}.md").read_text(encoding="utf-8")
    part = re.split(r"\n## ", (DOCS / "agents.md").read_text(encoding="utf-8").partition(f"\n## {PARTS[name]}\n")[2])[0]
    return f"# {PARTS[name]}\n" + part.replace("\n### ", "\n## ")


def blocks(name: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page(name), flags=re.DOTALL)


def section(name: str, title: str) -> str:
    return f"\n{page(name)}".split(f"\n{title}\n")[1].split("\n## ")[0]


def names(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small episode in a writable working folder."""
    monkeypatch.chdir(tmp_path)
    return Native().write(tmp_path / "KXTEST-26JAN20")


def execute(code: str, **given: object) -> dict[str, object]:
    exec(compile(code, "example.md", "exec"), given)
    return given


# agents.md


def block(text: str) -> str:
    """Return the example of agents.md that contains a text."""
    (found,) = [one for one in blocks("agents") if text in one]
    return found


def example(name: str, folder: Path) -> type[Agent]:
    """Return the class of this name in an example of agents.md."""
    path = folder.parent / f"example_{name.lower()}.py"
    path.write_text(block(f"class {name}("), encoding="utf-8")
    return load_agent_class(f"{path}:{name}")


def test_every_example_of_agents_is_run_here() -> None:
    """Except the one that needs a cluster."""
    tested = (
        "Maker(Agent)",
        "Pairs(Agent)",
        "Patient(Agent)",
        "LLMAgent",
        "Maker(spread_cents",
        "JoinTheBid(Agent)",
        "JoinTheBid(Comp",
        "FollowTheTouch(",
        "Isolation(memory",
    )
    assert [one for one in blocks("agents") if not any(text in one for text in tested)] == [block("SLURMCluster")]


def test_the_first_agent_trades_from_the_command_and_from_python(folder: Path) -> None:
    shown = re.search(r"^ {4}bellwether (backtest .*my_file.*)$", page("agents"), flags=re.MULTILINE)
    assert shown is not None
    Path("my_file.py").write_text(blocks("agents")[0], encoding="utf-8")
    result = CliRunner().invoke(main, [*shown[1].replace(" ID", f" {folder}").split(), "--cadence", "5"])
    assert result.exit_code == 0, result.output
    assert "KXTEST-26JAN20" in result.output
    maker = example("Maker", folder)
    done = run(load(folder), maker(spread_cents=4, size=2), BacktestSettings(cadence=CADENCE))
    assert done.failure is None
    assert set(done.orders["side"]) == {"yes", "no"}
    assert isinstance(execute(block("Maker(spread_cents=6)"), episode=load(folder), Maker=maker)["profit"], int)
    Path("agents.toml").write_text(blocks("agents", "toml")[0], encoding="utf-8")
    agent = agents(folder.parent)["wide-maker"].make()
    assert (agent.name, agent.params) == ("wide-maker", {"spread_cents": 6, "size": 10})


def test_the_agent_that_is_called_between_decisions_pairs_its_fills(folder: Path) -> None:
    done = run(market(TRADE), example("Pairs", folder)(), settings())
    assert done.failure is None
    # YES at 45 cents at the print, and a bid for NO at 53 sent at that instant.
    assert done.outcome.orders[:2, [O_SIDE, O_PRICE, O_SENT]].tolist() == [[YES, 45 * CENT, 0], [NO, 53 * CENT, 90 * SECOND]]
    assert done.orders["tag"].to_list()[:2] == ["first leg", "second leg"]


def test_the_agent_with_a_timer_takes_the_offer_when_its_time_is_over(folder: Path) -> None:
    done = run(market(), example("Patient", folder)(), settings())
    assert done.failure is None
    assert done.outcome.orders[:, [O_SIDE, O_PRICE, O_SENT]].tolist() == [[YES, 45 * CENT, 0], [YES, 0, 20 * SECOND]]
    assert done.fills["price"].to_list() == [Decimal("0.48")]


@pytest.mark.slow
def test_the_agent_with_a_language_model_trades(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(folder.parent / "home"))
    example_of_model = next(one for one in blocks("agents") if "LLMAgent" in one)
    done = execute(example_of_model, episode=load(folder))["backtest"]
    assert isinstance(done, Backtest)
    assert (done.failure, done.band) == (None, "fills")


def test_the_isolated_example_trades(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "my_file.py").write_text(block("class Maker("), encoding="utf-8")
    monkeypatch.chdir(folder.parent)
    done = execute(block("Isolation(memory"), episode=load(folder))["backtest"]
    assert isinstance(done, Backtest)
    assert done.failure is None, done.failure
    assert done.confinement is not None


def test_the_arrays_and_the_compiled_examples_trade(folder: Path) -> None:
    classes = example("JoinTheBid", folder), example("CompiledJoinTheBid", folder)
    first, second = (run(load(folder), cls(), BacktestSettings(cadence=CADENCE, band="fills")) for cls in classes)
    assert (first.failure, second.failure) == (None, None)
    assert len(first.outcome.orders) > 1
    assert first.outcome.digest() == second.outcome.digest()
    follows = run(load(folder), example("FollowTheTouch", folder)(), BacktestSettings())
    assert follows.failure is None
    # There is no decision for 300 seconds.
    assert 0 < follows.outcome.orders[:, O_SENT].max() - follows.tape.start < 300 * SECOND


def test_the_attributes_of_the_context_exist() -> None:
    table = re.search(r"## What the context has.*?\n\n(\|.*?)\n\n", page("agents"), flags=re.DOTALL)
    assert table is not None
    rows = dict(row.strip("|").split(" | ", 1) for row in table[1].splitlines()[2:])
    own = [name for first in rows for name in re.findall(r"`(\w+)", first)]
    assert len(own) > 20
    assert {name for name in own if not hasattr(AgentContext, name)} == set()
    for call, view in (
        ("markets()", Market),
        ("buy(ticker, side, lots, price=None, tif=None)", Order),
        ("trades(ticker)", Trade),
        ("fills(ticker)", Fill),
        ("position(ticker)", Position),
    ):
        (told,) = [second for first, second in rows.items() if f"`{call}`" in first]
        named = names(told)
        assert len(named) > 5
        assert {name for name in named if not hasattr(view, name)} == set()
    assert all(hasattr(Quotes, name) for name in ("yes_bid", "no_bid", "yes_ask", "no_ask", "active"))


# agents.md, language models


def rows(title: str) -> dict[str, str]:
    """Return the table of a section by the names in its first cells."""
    lines = re.findall(r"^\| (`[^|]+`) \|(.*)\|$", section("llm-agent", title), re.MULTILINE)
    return {name: cells for first, cells in lines for name in names(first)}


def test_parameters_tools_and_ends_of_a_step_are_listed() -> None:
    assert list(rows("# Language models as traders")) == list(inspect.signature(LLMAgent.__init__).parameters)[1:]
    listed = rows("## Tools")
    tools = {
        one["function"]["name"]: one["function"]["parameters"]["properties"]
        for one in Toolbox(replace(episode(1).info, exogenous=("spx",))).definitions
    }
    assert {name: names(cells) for name, cells in listed.items()} == {name: list(properties) for name, properties in tools.items()}
    assert set(rows("## A step")) == {"done", "no_tool", "rounds", "failed"}


def test_steps_are_read_with_the_sql(tmp_path: Path) -> None:
    trade(Scripted(tmp_path / "journal.db"), tmp_path / "run", episode(4))
    (sql,) = blocks("llm-agent", "sql")
    found = duckdb.sql(sql.replace("steps/*.jsonl", f"{tmp_path}/run/steps/*.jsonl")).fetchall()
    assert [(number, ended) for number, _, ended, *_ in found] == [(number, "done") for number in range(4)]
    assert all(dollars == pytest.approx(rounds * 0.00002) for *_, rounds, dollars in found)


@pytest.mark.slow
def test_the_example_of_the_llm_agent_runs(folder: Path) -> None:
    execute(blocks("llm-agent")[0].replace("episodes/KXTOTALCFB-26JUN28", str(folder)))
    assert Path("trajectory/trajectory.json").is_file()


# episodes.md


def test_the_example_makes_the_episode_that_it_says(folder: Path) -> None:
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n    (.*?)\n", page("episodes"), flags=re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        execute(code)
    assert said.getvalue().strip() == printed
    report = validate(folder.parent / "RAIN-26JAN20")
    assert report.errors == report.warnings == []


@pytest.mark.parametrize(("title", "schema"), [("orderbook.parquet", book_schema()), ("trades.parquet", trade_schema())])
def test_every_column_is_described_in_its_place_with_its_type(title: str, schema: object) -> None:
    described = re.findall(r"^\| `(\w+)`(?: or `\w+`)? \| ([^|]+) \|", section("episodes", f"## {title}"), flags=re.MULTILINE)
    written = {"string": "text", "timestamp[ns, tz=UTC]": "timestamp[ns, UTC]"}
    assert described == [(one.name, written.get(str(one.type), str(one.type))) for one in schema]  # type: ignore[attr-defined]


def test_every_key_of_the_metadata_and_column_of_a_series_is_described() -> None:
    described, one = set(names(section("episodes", "## metadata.json"))), metadata.Market("A")
    assert set(metadata.dump_metadata(metadata.Metadata("x", 0, 1, (one,)), "")) | set(metadata.dump_market(one)) <= described
    assert names(section("episodes", "## exogenous.parquet"))[:2] == SERIES.names[:2]


# agents.md, isolation; trading-metrics.md


def test_the_example_of_isolation_runs_and_its_options_have_the_defaults_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_file.py").write_text(block("class Maker("), encoding="utf-8")
    (code,) = blocks("isolation")
    execute(code, episode=load(folder))
    assert capsys.readouterr().out.startswith("None kept from it: ")
    shown = dict(re.findall(r"\| `--([a-z-]+)` \| (\d+)", page("isolation")))
    options = {option.opts[0].removeprefix("--"): option.default for option in backtest.params}
    assert len(shown) == 4
    assert {name: float(value) for name, value in shown.items()} == {name: options[name] for name in shown}


def test_the_examples_of_metrics_run_and_every_metric_is_explained() -> None:
    assert [execute(code) for code in blocks("trading-metrics")]
    measured = {column.name for column in METRICS} - {f"adverse_selection_{seconds}s" for seconds in HORIZONS_S}
    assert [name for name in sorted(measured) if f"`{name}`" not in page("trading-metrics")] == []


# replay-rules.md


@pytest.mark.parametrize("example", blocks("replay-rules"), ids=range(len(blocks("replay-rules"))))
def test_every_example_of_the_rules_runs(example: str, folder: Path) -> None:
    assert "assert" in example
    execute(example)
    if Path("latencies.csv").exists():
        expected = [[10**9, 1_040_000_000, 1_090_000_000], [61 * 10**9, 61_055_000_000, 61_120_000_000]]
        assert LatencySeries.read(Path("latencies.csv")).rows.tolist() == expected
        pl.read_csv("latencies.csv").write_parquet("latencies.parquet")
        assert LatencySeries.read(Path("latencies.parquet")) == LatencySeries.read(Path("latencies.csv"))


def test_every_rule_set_switch_and_reason_is_named() -> None:
    text = page("replay-rules")
    listed = re.findall(r"^\| (`[a-z].*`) \|", text.split("## Rule sets")[1].split("```")[0], flags=re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"`([^`]+)`", row)} == set(rule_sets())
    described = {
        "name",
        "title",
        "since",
        "general",
        "default",
        "fees",
        "sources",
        "fee_unit",
        "balance_unit",
        "rebate_unit",
        "rebate_above",
    }
    ours, original = rule_set("kalshi-2026-08-30"), rule_set("pmb-2026-01")
    differ = {one.name for one in fields(RuleSet) if getattr(ours, one.name) != getattr(original, one.name)} - described
    assert differ == set(re.findall(r"^\| `([a-z_]+)` \|", text.split("the original's:")[1].split("## Time")[0], flags=re.MULTILINE))
    named = set(re.findall(r"`([a-z_]+)`", text.split("Rejections, the first that applies:")[1].split("A rejected order")[0]))
    assert named - {"taker_only"} <= {reason.name.lower() for reason in Reason}
    assert {"insufficient_cash", "would_cross", "invalid_book", "no_book"} <= named
