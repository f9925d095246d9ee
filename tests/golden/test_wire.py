"""Equal requests get recorded answers, whatever a transport adds. Digests show changed numbers and ignore run ids."""

from __future__ import annotations

from pathlib import Path

import duckdb
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.golden.digests import differences, tables
from tests.golden.wire import Player, Recorder, load, save

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Rain?"}]}


async def _echo(request: Request) -> Response:
    return JSONResponse(
        {"asked": str(request.url.query) or (await request.json())["messages"]}, headers={"date": "Wed, 01 Jul 2026 00:00:00 GMT"}
    )


async def _post(app: object, path: str, body: dict[str, object]) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:  # type: ignore[arg-type]
        return await client.post(path, json=body)


async def _get(app: object, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:  # type: ignore[arg-type]
        return await client.get(path)


async def test_what_was_recorded_is_given_again(tmp_path: Path) -> None:
    answers: dict[str, dict[str, object]] = {}
    recorder = Recorder(Starlette(routes=[Route("/a", _echo, methods=["GET", "POST"])]), answers)
    got, said = await _get(recorder, "/a?x=1&y=2"), await _post(recorder, "/a", CHAT)
    save(answers, tmp_path / "answers.xz")
    player = Player(load(tmp_path / "answers.xz"))
    again = await _get(player, "/a?y=2&x=1")
    assert (again.text, again.headers["date"]) == (got.text, got.headers["date"])
    assert (await _post(player, "/a", {**CHAT, "user": "somewhere", "timeout": 5})).text == said.text
    assert player.unknown == []
    assert (await _post(player, "/a", {**CHAT, "seed": 2})).status_code == 400
    assert (await _get(player, "/a?x=2")).status_code == 400
    assert len(player.unknown) == 2 and player.unknown[1] == "GET /a?x=2"


async def test_a_request_with_two_answers_cannot_be_recorded() -> None:
    given = iter("12")

    async def count(request: Request) -> Response:
        return Response(next(given))

    recorder = Recorder(Starlette(routes=[Route("/a", count)]), {})
    await _get(recorder, "/a")
    with pytest.raises(ValueError, match="GET /a: it was answered in two ways"):
        await _get(recorder, "/a")


def test_every_kind_of_difference_is_named() -> None:
    old = {"tables": {"a.t": {"rows": 1, "columns": {"x": "1", "y": "1"}}, "a.gone": {}}, "printed": {"p": ["1", "2"]}, "files": {"f": "1"}}
    new = {
        "tables": {"a.t": {"rows": 2, "columns": {"x": "1", "y": "2", "z": "3"}}},
        "printed": {"p": ["1", "3"]},
        "files": {"f": "2", "g": "1"},
    }
    assert differences(old, old) == []
    assert differences(old, new) == [
        "tables: a.gone is gone",
        "a.t: 1 rows became 2",
        "a.t: other values in y, z",
        "p: -2",
        "p: +3",
        "files: g is new",
        "f: other contents",
    ]


@pytest.mark.parametrize(("factor", "run", "changed"), [(1 + 1e-10, "r1", True), (1 + 1e-14, "r2", False)])
def test_a_changed_number_is_seen_and_a_run_is_not(tmp_path: Path, factor: float, run: str, changed: bool) -> None:
    def made(name: str, value: float, run: str) -> dict[str, object]:
        with duckdb.connect(str(tmp_path / name)) as warehouse:
            warehouse.execute("CREATE SCHEMA meta; CREATE TABLE meta.tables AS SELECT 'a.t' AS table_name, ['k'] AS key")
            warehouse.execute("CREATE TABLE meta.partitions (table_name TEXT, file TEXT, published BOOL, damage TEXT)")
            warehouse.execute("CREATE SCHEMA a; CREATE TABLE a.t (k INT, value DOUBLE, run_id TEXT)")
            warehouse.executemany("INSERT INTO a.t VALUES (?, ?, ?)", [(2, 0.5, run), (1, value, run)])
        return {"tables": dict(tables(tmp_path / name)), "printed": {}, "files": {}}

    told = differences(made("old", 1 / 3, "r1"), made("new", 1 / 3 * factor, run))  # type: ignore[arg-type]
    assert told == (["a.t: other values in value"] if changed else [])
