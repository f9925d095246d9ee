"""The journal as a resource: the same calls in every step, and no password in Dagster's storage."""

from pathlib import Path

import dagster as dg
import pytest

from bellwether.journal import Answered
from bellwether.settings import settings
from resources.journal import JournalResource
from tests.journal.calls import begin_call, claim_call, make_reply


@dg.asset
def decision(journal: JournalResource) -> str:
    found = begin_call(journal.journal)
    return f"stored {found.content}" if isinstance(found, Answered) else found[1].answer(make_reply()).content


def test_steps_of_different_runs_share_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    told = [dg.materialize([decision], resources={"journal": JournalResource(url=url)}).output_for_node("decision") for _ in range(2)]
    assert told == ["0.7", "stored 0.7"]


def test_without_a_url_it_is_the_worlds_journal() -> None:
    resource = JournalResource()
    assert claim_call(resource.journal)
    assert (settings().world_home / "journal.db").is_file()
    assert resource.journal is resource.journal


def test_the_password_of_the_setting_is_in_nothing_that_dagster_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_JOURNAL", "postgresql://user:s3cret@host/db")
    settings.cache_clear()
    resource = JournalResource()
    definitions = dg.Definitions(assets=[decision], resources={"journal": resource})
    kept = [
        repr(resource),
        str(resource.model_dump()),
        repr(resource.journal),
        repr(JournalResource(url="postgresql://user:s3cret@host/db")),
    ]
    kept.append(str(definitions.get_repository_def().get_top_level_resources()["journal"].config_schema.default_value))
    assert not [text for text in kept if "s3cret" in text]
