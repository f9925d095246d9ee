"""Recordings, trajectories, evaluations, submissions, exports and the site behave on an object store as in a folder."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from bellwether.backup import backup
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.evaluation import Evaluation, Evaluations
from bellwether.forecasting.registry import forecasters
from bellwether.places import filesystem, place
from bellwether.publish import export
from bellwether.publish.card import is_export
from bellwether.recordings.catalogue import find_recording, list_recordings, store_finished
from bellwether.recordings.gap_summary import store_gap_summary
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import Recording, RecordingStatus
from bellwether.recordings.sandbox_recordings import generate_recording
from bellwether.replay.agents.llm.trajectory import CHECKPOINT, Trajectory
from bellwether.sandbox import GeneratedWorld
from bellwether.settings import Settings, World, settings
from bellwether.site import build, contents, read_site_state
from bellwether.submissions import Submissions
from bellwether.submissions.validation import SCHEMA
from cli.main import main
from resources.reports import ReportsResource
from tests.cli.test_recordings import an_event
from tests.lake.s3_server import S3Server
from tests.publish.rows import questions
from tests.site.world import Size, published
from tests.unit.recordings.frames import recorded
from tests.unit.replay.episode_builder.streams import ABOUT, at, frames, trade
from tests.unit.replay.llm.scripted_models import HEAD, step
from tests.venues.stream.peer import A, B, delta, snapshot

NOW = datetime(2026, 7, 1, tzinfo=UTC)
EVENT = "KXHIGHLAX-26JUN27"
SAID = (snapshot(A, 1), snapshot(B, 2), delta(A, 3, **at(1)), trade(A, 1, price="0.9900", **at(2)))


def forecast(name: str, market: str, p: float = 0.5) -> pl.DataFrame:
    return pl.DataFrame([(name, market, NOW, p, NOW)], schema=SCHEMA, orient="row")


def requests_of(place: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Record all further requests to the store of a place."""
    fs, _ = filesystem(place)
    sent: list[str] = []
    request = fs._call_s3

    async def noted(method: str, *args: Any, **more: Any) -> Any:
        sent.append(method)
        return await request(method, *args, **more)

    patch.setattr(fs, "_call_s3", noted)
    return sent


def content(recording: Recording) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in recording.segments]


def test_a_generated_recording_is_the_one_of_a_folder_and_made_once(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, root = GeneratedWorld(7), place(f"{bucket}/recordings")
    local = generate_recording(tmp_path, world, EVENT, hours=1, now=NOW)
    stored = generate_recording(root, world, EVENT, hours=1, now=NOW)
    assert stored.status is RecordingStatus.FINISHED and stored.about == local.about and stored.size == local.size
    assert content(stored) == content(local) and list(stored.frames()) == list(local.frames())
    assert store_gap_summary(stored) == store_gap_summary(local)
    assert [one.name for one in list_recordings(root)] == [EVENT]
    sent = requests_of(root, monkeypatch)
    assert [(one.about, one.done) for one in list_recordings(root)] == [(local.about, local.done)]
    first = len(sent)
    assert [(one.about, one.done) for one in list_recordings(root)] == [(local.about, local.done)]
    assert len(sent) == first + 1, "a listing: files of finished recordings are read once per process"
    again = generate_recording(root, world, EVENT, hours=1, now=NOW)
    assert content(again) == content(local)
    with pytest.raises(ConfigError, match="is taken by another recording"):
        generate_recording(root, world, EVENT, hours=2, now=NOW)
    with pytest.raises(ConfigError, match=f"below s3://.* there are {EVENT}"):
        find_recording(root, "other")


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


def test_what_could_not_be_uploaded_is_stored_by_command(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is /" in CliRunner().invoke(main, ["recordings", "store"]).output
    monkeypatch.setenv("BELLWETHER_RECORDINGS", f"{bucket}/recordings")
    settings.cache_clear()
    recorded(settings().recorder_path / "rec", frames(*SAID), about=ABOUT)
    listed = CliRunner().invoke(main, ["recordings"]).output
    done = CliRunner().invoke(main, ["recordings", "store"])
    assert done.exit_code == 0 and f"rec: in {bucket}/recordings/rec" in done.output
    assert not (settings().recorder_path / "rec").exists()
    assert CliRunner().invoke(main, ["recordings"]).output == listed


@pytest.mark.slow
def test_a_recorder_records_while_the_store_does_not_answer(bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_RECORDINGS", f"{bucket}/recordings")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    settings.cache_clear()
    words = ["record", an_event(), "--minutes", "0.02", "--name", "mine"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "mine: time was up" in done.output
    assert "does not answer" in done.output and "`bellwether recordings store` uploads it" in done.output
    frames = list(find_recording(settings().recorder_path, "mine").frames())
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    assert CliRunner().invoke(main, ["recordings", "store"]).exit_code == 0
    assert list(find_recording(settings().recordings_path, "mine").frames()) == frames != []
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 1 and "has a finished recording of this name; choose another one" in again.output


def test_wrong_keys_are_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "ListObjectsV2")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied") from refused

    monkeypatch.setenv("BELLWETHER_EPISODES", f"{bucket}/episodes")
    settings.cache_clear()
    monkeypatch.setattr(filesystem(settings().episodes_path)[0], "find", deny)
    done = CliRunner().invoke(main, ["episode", "list"])
    assert (done.exit_code, done.output) == (
        1,
        "Error: reaching the object store: Access Denied. Check AWS_ENDPOINT_URL, the keys and the network; then run again\n",
    )


def test_a_trajectory_goes_on_where_another_machine_left_it(bucket: str) -> None:
    folder = place(f"{bucket}/trajectories/E/llm-0")
    first = Trajectory.begin(folder, HEAD)
    for number in range(CHECKPOINT + 7):
        first.add(step(number))
    first.save()
    second = Trajectory.begin(folder, HEAD)
    assert second.stored == CHECKPOINT + 7 and second.step(CHECKPOINT + 6) == step(CHECKPOINT + 6)
    for number in range(second.stored, 2 * CHECKPOINT + 1):
        second.add(step(number))
    second.finish()
    found = Trajectory.open(folder)
    assert found.finished is not None and list(found.steps()) == [step(number) for number in range(2 * CHECKPOINT + 1)]


def test_evaluations_of_one_second_have_different_names_and_the_latest_is_resumed(bucket: str) -> None:
    kept = Evaluations(place(f"{bucket}/evaluations"))
    one = Evaluation("evaluate-20260701T000000Z", "r", ("m",), Decimal(1), {"q": "1"})
    first, second = kept.begin(one), Evaluations(place(f"{bucket}/evaluations")).begin(one)
    assert (first.run, second.run) == (one.run, f"{one.run}-2")
    kept.finish(second)
    assert kept.read_unfinished("r") == first


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


@pytest.mark.slow
def test_the_site_is_uploaded_and_only_what_changed_again(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "chart_library", lambda: b"")
    small = Size(questions=6, prices=3, models=3, samples=8, orders=40, cohorts=2, families=2, markets=30)
    warehouse, target = published(tmp_path, small), place(f"{bucket}/site")
    assert read_site_state(target) is None
    local = build(warehouse, tmp_path / "site")
    stored = build(warehouse, target)
    assert (str(stored.folder), stored.files, read_site_state(target)) == (f"{bucket}/site", local.files, read_site_state(local.folder))
    for path in (path for path in local.folder.rglob("*") if path.is_file()):
        assert (target / path.relative_to(local.folder).as_posix()).read_bytes() == path.read_bytes()
    times = {path.name: path.stat().st_mtime for path in target.glob("*.html")}
    shutil.rmtree(settings().cache_path)
    assert build(warehouse, target).files == local.files
    assert {path.name: path.stat().st_mtime for path in target.glob("*.html")} == times


def test_a_backup_names_the_place_that_it_cannot_copy(bucket: str, tmp_path: Path) -> None:
    config = Settings(home=tmp_path / "home", episodes=f"{bucket}/episodes")
    config.world_home.mkdir(parents=True)
    with pytest.raises(
        ConfigError, match=rf"backing up: the episodes are in {bucket}/episodes; back them up with the tools of that storage"
    ):
        backup(config, tmp_path / "backups", at=NOW)
    assert not (tmp_path / "backups").exists()
