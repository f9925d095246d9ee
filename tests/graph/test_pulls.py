"""`bellwether pull` and the daily pull with rejected objects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import orjson
import pytest
from click.testing import CliRunner, Result

from assets.venues import runs
from assets.venues.schedules import days_to_pull, final_days
from bellwether.errors import QualityError
from bellwether.lake import Lake
from bellwether.progress import Silent
from bellwether.settings import Venue, settings
from bellwether.tables.clean import MARKETS
from bellwether.tables.raw import KALSHI_MARKETS, KALSHI_PULLS, KALSHI_REJECTS, POLYMARKET_PULLS
from bellwether.venues.http.pages import DONE, PageStore
from bellwether.venues.http.pull_choice import build_completion, list_open_days
from bellwether.venues.kalshi.wire import parse_markets
from cli.main import main
from orchestration.definitions import build_defs
from orchestration.runner import RunStats
from resources import LakeResource
from tests.venues.venue import answer
from tests.venues.wire_objects import DAY, ORIGIN, market
from tests.venues.world import World, closing


def store(lake: Lake, *objects: dict[str, object]) -> None:
    """Store a day of Kalshi from these objects."""
    parsed = parse_markets(list(objects), ORIGIN, day=DAY, source="live")
    for declared, rows in ((KALSHI_MARKETS, parsed.rows), (KALSHI_REJECTS, parsed.rejects)):
        lake.write(declared, (DAY.isoformat(),), rows, run_id="run")


def test_rejects_are_counted_by_reason_and_told_with_what_becomes_of_them(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(lake, market("A"), market("B", result=""), market("C", result=""), market("D", floor_strike="52.5"))
    found = runs.count_rejects(lake, DAY, DAY)
    assert runs.format_rejects(found) == [
        "2 of raw/kalshi_markets, result: a settled market without a result; requested again by the daily pull",
        "1 of raw/kalshi_markets, floor_strike: not a number; permanent",
    ]
    runs.require_rows(lake, found)
    assert runs.count_rejects(lake, date(2026, 3, 1), date(2026, 3, 2)).is_empty()


def test_a_day_of_rejects_alone_is_an_error_that_names_the_reason(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    store(lake, market("B", result=""), market("C", floor_strike="52.5"), market("D", floor_strike="52.5"))
    with pytest.raises(QualityError, match=r"2026-03-14: all 3 market objects of kalshi were rejected, most .+floor_strike: not a number"):
        runs.require_rows(lake, runs.count_rejects(lake, DAY, DAY))


def test_a_day_that_rests_is_not_due_before_its_next_look(tmp_path: Path) -> None:
    lake, day, today = Lake(str(tmp_path)), date(2026, 3, 4), date(2026, 3, 9)
    pulled = datetime(2026, 3, 8, 1, 20, tzinfo=UTC)
    row = {"day": day, "pull": "0001", "final": False, "requests": 1, "started_at": pulled, "finished_at": pulled, "known_at": pulled}
    note = build_completion(day, pulled, settled=True, complete=True, waiting=True, named=True)
    assert note["next_look"] == "2026-03-12"
    for declared in (KALSHI_PULLS, POLYMARKET_PULLS):
        venue = declared.short_name.partition("_")[0]
        lake.write(declared, (day.isoformat(),), declared.frame([row]), run_id="run")
        lake.storage.put(f"raw/{venue}_pages/day/{day}/0001/{DONE}", orjson.dumps({**note, "plan": {}, "pages": {}}))
    resource = LakeResource(uri=str(tmp_path))
    due = {
        at: day in days_to_pull(at, final_days(resource, at, tuple(Venue)), {day}) for at in (today, date(2026, 3, 11), date(2026, 3, 12))
    }
    assert due == {today: False, date(2026, 3, 11): False, date(2026, 3, 12): True}


@pytest.mark.parametrize(
    ("settled", "complete", "waiting", "named", "due", "due_live"),
    [
        (True, True, False, True, False, False),
        (False, True, False, True, False, True),
        (True, True, True, True, True, True),
        (False, True, True, True, True, True),
        (True, True, True, False, True, True),
        (True, False, False, True, True, True),
    ],
    ids=["final", "an open market", "a reject", "an open market and a reject", "a page", "a hole"],
)
def test_the_command_requests_whatever_is_not_final(
    settled: bool, complete: bool, waiting: bool, named: bool, due: bool, due_live: bool, tmp_path: Path
) -> None:
    note = build_completion(DAY, datetime(2026, 3, 20, tzinfo=UTC), settled=settled, complete=complete, waiting=waiting, named=named)
    lake = Lake(str(tmp_path))
    lake.storage.put(f"raw/kalshi_pages/day/{DAY}/0001/{DONE}", orjson.dumps({**note, "plan": {}, "pages": {}}))
    pages = PageStore(lake.storage)
    assert [list(list_open_days(pages, [DAY], include_unresolved=unresolved)) == [DAY] for unresolved in (False, True)] == [due, due_live]


def test_failed_days_are_counted_among_all_days_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_outdated_days", lambda work, wanted: wanted[-2:])
    monkeypatch.setattr(runs, "_run_days", lambda work, due, config: {due[0]: "HTTP 403"})
    work = SimpleNamespace(stats=RunStats(), progress=Silent())
    with pytest.raises(runs.DaysFailed, match="1 of 5 days failed; the others are stored:\n  2026-03-04: HTTP 403"):
        runs.pull_days(work, date(2026, 3, 1), date(2026, 3, 5))  # type: ignore[arg-type]


@pytest.fixture
def venue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A live Kalshi on a local port, and a separate home."""
    world = World(cutoff="2020-01-01T00:00:00Z", page_size=100)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = httpx.Request("GET", f"http://venue{self.path}")
            response = answer({"exchange_active": True}) if self.path.endswith("/exchange/status") else world(request)
            self.send_response_only(response.status_code)
            self.send_header("Date", world.date)
            self.send_header("Content-Length", str(len(response.content)))
            self.end_headers()
            self.wfile.write(response.content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("BELLWETHER_VENUES", "kalshi")
    monkeypatch.setenv("BELLWETHER_KALSHI_URL", f"http://127.0.0.1:{server.server_port}/trade-api/v2")
    settings.cache_clear()
    monkeypatch.setenv("DAGSTER_HOME", str(settings().dagster_home))
    monkeypatch.setattr("orchestration.definitions.defs", build_defs(config=settings()))
    yield world
    settings.cache_clear()
    server.shutdown()


@pytest.mark.slow
def test_the_command_tells_rejects_fails_for_nothing_else_and_asks_again_when_told_to(venue: World) -> None:
    venue.live = [closing("A-1", "2026-03-14T15:00:00Z", result="")]
    first = pull("2026-03-14")
    assert first.exit_code == 1
    assert "1 of raw/kalshi_markets, result: a settled market without a result" in first.stdout
    assert "all 1 market objects of kalshi were rejected" in first.stderr
    venue.unnamed = 3
    assert "1 of raw/kalshi_markets, result: a settled market without a result" in pull("2026-03-14").stdout, (
        "the answer by ticker lacked it"
    )
    venue.live[0] |= {"result": "yes"}
    second = pull("2026-03-14")
    assert (second.exit_code, ", 0 rejects" in second.stdout) == (0, True), second.stderr
    rows = Lake(settings().lake_uri).slice(KALSHI_MARKETS).read()
    assert rows.select("ticker", "result").rows() == [("A-1", "yes")]
    assert pull("2026-03-14").exit_code == 0
    assert sum("min_close_ts" in url for url in venue.asked) == 3


@pytest.mark.slow
def test_days_that_fail_take_no_other_day_of_the_range_with_them(venue: World, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {
        "2026-03-13": answer({"error": "forbidden"}, status=403),
        "2026-03-14": answer({"error": "gone"}, status=404),
        "2026-03-16": answer({}, status=402),
    }
    usual = venue._answer

    def respond(path: str, query: httpx.QueryParams) -> httpx.Response:
        after = int(query.get("min_close_ts", 0))
        day = datetime.fromtimestamp(after + 1, UTC).date().isoformat()
        return odd.get(day) or usual(path, query)

    monkeypatch.setattr(venue, "_answer", respond)
    days = [f"2026-03-{number}" for number in range(12, 20)]
    venue.live = [closing(f"A-{day[-2:]}", f"{day}T15:00:00Z") for day in days]
    found = pull(days[0], days[-1])
    assert found.exit_code == 1
    assert "3 of 8 days failed; the others are stored" in found.stderr
    for day, reason in {"2026-03-13": "HTTP 403", "2026-03-14": "HTTP 404", "2026-03-16": "HTTP 402"}.items():
        (line,) = (line for line in found.stderr.replace("\n    ", " ").splitlines() if line.strip().startswith(f"{day}:"))
        assert reason in line
    assert "Dependencies for step" not in found.stdout + found.stderr
    stored = Lake(settings().lake_uri).slice(MARKETS).read()
    assert sorted(stored["market_id"]) == [f"A-{day[-2:]}" for day in days if day not in odd]
    listed = [url for url in venue.asked if "min_close_ts" in url]
    assert len(listed) == len(set(listed)) == len(days), "each day is requested once"
    odd.clear()
    again = pull(days[0], days[-1])
    assert (again.exit_code, "6 partitions up to date" in again.stdout) == (0, True), again.stderr
    assert len([url for url in venue.asked if "min_close_ts" in url]) == len(days) + 3


def pull(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pull", *arguments])
