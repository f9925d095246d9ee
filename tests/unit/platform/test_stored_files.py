"""Recordings, trajectories, submissions and exports behave on an object store as in a folder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.registry import forecasters
from bellwether.places import failures, place
from bellwether.publish import export
from bellwether.publish.card import is_export
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import Recording, find_recording, list_recordings, store_finished
from bellwether.replay.agents.llm import Trajectory
from bellwether.settings import World, settings
from bellwether.submissions import Submissions
from bellwether.submissions.validation import SCHEMA
from tests.stores import close_store, requests_of
from tests.unit.publish.rows import questions
from tests.unit.recordings.frames import recorded
from tests.unit.replay.episode_builder.streams import ABOUT, at, frames, trade
from tests.unit.replay.llm.scripted_models import HEAD, played
from tests.unit.venues.stream_peer import A, B, delta, snapshot

NOW = datetime(2026, 7, 1, tzinfo=UTC)
SAID = (snapshot(A, 1), snapshot(B, 2), delta(A, 3, **at(1)), trade(A, 1, price="0.9900", **at(2)))


def forecast(name: str, market: str, p: float = 0.5) -> pl.DataFrame:
    return pl.DataFrame([(name, market, NOW, p, NOW)], schema=SCHEMA, orient="row")


def content(recording: Recording) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in recording.segments]


def test_a_finished_recording_moves_into_the_store_and_an_unfinished_one_stays(bucket: str, tmp_path: Path) -> None:
    root = place(f"{bucket}/recordings")
    recorded(tmp_path / "done", frames(*SAID), about=ABOUT)
    with Recorder(tmp_path / "open", ABOUT) as recorder:
        for frame in frames(*SAID):
            recorder.write(frame)
        before = list(Recording(tmp_path / "done").frames())
        assert [one.name for one in store_finished(tmp_path, root)] == ["done"]
    assert [path.name for path in tmp_path.iterdir()] == ["open"]
    assert list(find_recording(root, "done").frames()) == before
    with pytest.raises(ConfigError, match="there are done"):
        find_recording(root, "open")
    recorded(
        tmp_path / "done",
        frames(*SAID[:2]),
        about=type(ABOUT)(**{**{name: getattr(ABOUT, name) for name in ABOUT.__slots__}, "partial": True}),
    )
    with pytest.raises(ConfigError, match=r"storing the recording done: .* is a different recording of the same name; rename"):
        store_finished(tmp_path, root)
    assert list(find_recording(root, "done").frames()) == before and (tmp_path / "done").is_dir()


def test_submissions_are_forecasters_and_of_two_at_once_none_is_lost(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_SUBMISSIONS", f"{bucket}/submissions")
    settings.cache_clear()
    one, two = Submissions(settings().submissions_path), Submissions(settings().submissions_path)
    one.add(forecast("mine", "kalshi:A"))
    version = forecasters()["mine"].version
    with one.lock(), two.lock():
        assert one.read().height == two.read().height == 1
        one.add(forecast("mine", "kalshi:B"))
        with pytest.raises(BellwetherError, match="submitting forecasts of mine: another submission changed them meanwhile; submit again"):
            two.add(forecast("mine", "kalshi:C"))
        two.add(forecast("other", "kalshi:C"))
    assert Submissions(settings().submissions_path).read()["market"].to_list() == ["kalshi:A", "kalshi:B", "kalshi:C"]
    assert forecasters()["mine"].version != version
    with two.lock():
        two.read()
        two.add(forecast("mine", "kalshi:D"))
    assert one.names() == ["mine", "other"] and one.read(["mine"]).height == 3


def test_an_export_goes_where_the_reports_are(bucket: str, tmp_path: Path) -> None:
    from resources.reports import ReportsResource

    folder = ReportsResource(uri=f"{bucket}/reports").folder("datasets", "made-up")
    local = export(questions(), tmp_path / "out", world=World.LIVE)
    for _ in range(2):
        stored = export(questions(), folder, world=World.LIVE)
    assert (str(stored.folder), stored.rows) == (f"{bucket}/reports/datasets/made-up", local.rows)
    assert is_export(folder)
    for path in (path for path in local.folder.rglob("*") if path.is_file()):
        assert (folder / path.relative_to(local.folder).as_posix()).read_bytes() == path.read_bytes()
    other = place(f"{bucket}/theirs")
    (other / "file").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"exporting to s3://.*/theirs: the folder contains something that is no earlier export"):
        export(questions(), other, world=World.LIVE)


def test_finished_recordings_are_read_once_per_process(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = place(f"{bucket}/recordings")
    local = Recording(recorded(tmp_path / "done", frames(*SAID), about=ABOUT).folder)
    about, done, before = local.about, local.done, content(local)
    store_finished(tmp_path, root)
    (stored,) = list_recordings(root)
    assert (stored.about, stored.done, content(stored)) == (about, done, before)
    sent = requests_of(root, monkeypatch)
    assert [(one.about, one.done) for one in list_recordings(root)] == [(about, done)]
    assert [request for request in sent if not request.startswith("list_objects")] == []


def test_a_recording_that_could_not_be_uploaded_stays_and_is_stored_later(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "rec", frames(*SAID), about=ABOUT)
    before = list(Recording(tmp_path / "rec").frames())
    with monkeypatch.context() as patch:
        close_store(patch)
        with pytest.raises(failures(BellwetherError)):
            store_finished(tmp_path, place(f"{bucket}/recordings"))
        assert list(Recording(tmp_path / "rec").frames()) == before
    root = place(f"{bucket}/recordings")
    assert [one.name for one in store_finished(tmp_path, root)] == ["rec"]
    assert not (tmp_path / "rec").exists()
    assert list(find_recording(root, "rec").frames()) == before != []


def test_a_trajectory_is_read_on_another_machine(bucket: str) -> None:
    file = place(f"{bucket}/trajectories/E/llm-0.jsonl")
    written = Trajectory(HEAD, [played(number) for number in range(3)])
    written.write(file)
    assert Trajectory.read(file) == written
