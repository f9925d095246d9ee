"""Episodes are written completely, with reproducible bytes, and read back unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import load, write
from bellwether.replay.episode.model import Gap, GridChange, Market, Metadata, Phase, Series, Settlement
from bellwether.replay.tape.layout import unpack
from tests.unit.replay.episode.folders import BOOK, TRADES, Native, at, book_columns, change_value, trade_columns

CONTENT = Content(
    metadata=Metadata(
        episode_id="KXTEST",
        start=at(0) - 1,
        end=at(600),
        markets=(
            Market(
                "KXTEST-A", title='<b>"A"</b>', fee={"type": "quadratic", "multiplier": "0.5"}, lifecycle=(Phase(at(10), "halt", "stream"),)
            ),
            Market("KXTEST-B", open_time=at(-60), close_time=at(599), price_ranges=((0, 1000, 10), (1000, 10_000, 50))),
        ),
        event_slug="KXTEST-26",
        title="Événement",
        mutually_exclusive=True,
        rules="pmb-2026-01",
        bankroll=250_000_000,
        execution_mode="taker_only",
        description="of a test",
        source={"recording": "r", "digests": ["x"]},
        gaps=(Gap("KXTEST-A", at(100), None, "a message was lost"), Gap("KXTEST-B", at(1), at(2) + 1, "")),
        exogenous=(Series("spx", "points"),),
    ),
    book=book_columns([*BOOK, (100, 6, "KXTEST-A", "invalid", None, None, None)]),
    trades=trade_columns(TRADES),
    settlements=(Settlement("KXTEST-A", "VOID", None, at(600)), Settlement("KXTEST-B", "SCALAR", 123_456, at(600) + 123, "hand")),  # type: ignore[arg-type]
    exogenous={"spx": (np.array([at(0), at(1)]), np.array([4000.25, 4000.5]))},
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written = write(tmp_path / "episode", CONTENT)
    read = load(tmp_path / "episode")
    for episode in (written, read):
        assert (episode.id, episode.folder) == ("KXTEST", tmp_path / "episode")
        assert episode.metadata == CONTENT.metadata
        assert episode.content.settlements == CONTENT.settlements
        assert all((getattr(episode.content.book, name) == getattr(CONTENT.book, name)).all() for name in CONTENT.book.__dataclass_fields__)
        assert [values.tolist() for values in episode.content.exogenous["spx"]] == [[at(0), at(1)], [4000.25, 4000.5]]
    assert written.digest == read.digest == json.loads((tmp_path / "episode" / "metadata.json").read_text())["digest"]
    assert next(iter(json.loads((tmp_path / "episode" / "metadata.json").read_text()))) == "format"


def test_the_same_bytes_are_written_again(tmp_path: Path) -> None:
    for name in "aba":
        write(tmp_path / name, CONTENT)
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab"]
    assert files[0] == files[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_refused_content_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "episode", CONTENT)
    before = {path.name: path.read_bytes() for path in (tmp_path / "episode").iterdir()}
    wrong = replace(CONTENT, book=book_columns(change_value(BOOK, 6, 6, -1)))
    with pytest.raises(SchemaError, match="row 2"):
        write(tmp_path / "episode", wrong)
    assert {path.name: path.read_bytes() for path in (tmp_path / "episode").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["episode"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for target in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ConfigError):
            write(target, CONTENT)
    (tmp_path / "empty").mkdir()
    assert write(tmp_path / "empty", CONTENT).id == "KXTEST"


def digest(folder: Path, **changes: object) -> str:
    return load(Native(**changes).write(folder)).digest  # type: ignore[arg-type]


def test_the_digest_depends_on_neither_encoding_nor_description(tmp_path: Path) -> None:
    encoded = digest(tmp_path / "encoded", options={"compression": "none", "row_group_size": 2, "use_dictionary": False})
    native = Native()
    native.metadata |= {"episode_id": "OTHER", "title": None, "description": "other", "rules": "pmb-2026-01", "bankroll": 1}
    native.metadata["markets"][0] |= {"title": "other"}
    native.settlement["KXTEST-A"]["source"] = "hand"
    assert load(native.write(tmp_path / "a")).digest == digest(tmp_path / "b") == encoded


def test_the_digest_depends_on_all_that_a_result_can_depend_on(tmp_path: Path) -> None:
    def described(**values: object) -> Native:
        native = Native()
        native.metadata |= values
        return native

    def marketed(**values: object) -> Native:
        native = Native()
        native.metadata["markets"][0] |= values
        return native

    def settled(**values: object) -> Native:
        native = Native()
        native.settlement["KXTEST-B"] |= values
        return native

    natives = [
        Native(),
        Native(book=change_value(BOOK, 6, 6, 6_999)),
        Native(book=change_value(BOOK, 6, 1, 33)),
        Native(book=change_value(BOOK, 8, 0, 61)),
        Native(trades=change_value(TRADES, 0, 5, 2_999)),
        Native(trades=change_value(TRADES, 0, 3, "yes")),
        Native(trades=change_value(TRADES, 0, 1, "t9")),
        described(start="2026-01-20T00:00:00.000000001Z"),
        described(end="2026-01-20T00:11:00Z"),
        described(gaps=[{"ticker": "KXTEST-A", "start": "2026-01-20T00:00:01Z", "end": None, "cause": "x"}]),
        marketed(fee={"type": "quadratic", "multiplier": "2"}),
        marketed(price_ranges=[[0, 10_000, 10]]),
        marketed(lifecycle=[]),
        settled(result="VOID", value=None),
        settled(at="2026-01-20T00:12:00Z"),
    ]
    digests = [load(native.write(tmp_path / str(number))).digest for number, native in enumerate(natives)]
    assert len(set(digests)) == len(natives)


def test_a_price_range_that_is_none_is_refused_at_once() -> None:
    for span in (("0", "1", "0.01"), "0:1:0.01", (0, 1000), (0, 1000, 0), (0, 1000, 1.5), (-10, 1000, 10), (0, 10**6, 10), (True, 10, 1)):
        with pytest.raises(SchemaError):
            Market("KXA", price_ranges=(span,))  # type: ignore[arg-type]


def test_prices_of_a_hundredth_of_a_cent_and_changes_of_the_grid_are_kept(tmp_path: Path) -> None:
    quarter = ((0, 10_000, 25),)
    market = replace(CONTENT.metadata.markets[0], grid_changes=(GridChange(at(20), quarter, "tick_size_change"),))  # type: ignore[arg-type]
    metadata = replace(CONTENT.metadata, markets=(market, CONTENT.metadata.markets[1]))
    late = (300, 7, "KXTEST-A", "level", "yes", 452.5, 500)
    write(tmp_path / "episode", replace(CONTENT, metadata=metadata, book=book_columns([*BOOK, late])))
    read = load(tmp_path / "episode")
    assert read.metadata == metadata
    assert unpack(read.content.book.words)[3][-1] == 4525
