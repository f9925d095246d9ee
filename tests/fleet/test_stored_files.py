"""The tests of files on object stores, repeated on SeaweedFS, which stores objects on disk."""

from __future__ import annotations

import itertools

import pytest

from deploy.loopback import Process, credentials
from tests.nightly.test_stored_replay import test_episodes_of_one_machine_are_traded_by_another
from tests.unit.platform.test_files import (
    test_a_folder_is_replaced_and_its_copy_with_it,
    test_of_two_writers_of_a_file_one_is_refused,
    test_readers_of_a_folder_that_is_replaced_again_and_again_see_one_version,
    test_unchanged_files_are_left_as_they_are,
)
from tests.unit.platform.test_stored_files import (
    test_a_finished_recording_moves_into_the_store_and_an_unfinished_one_stays,
    test_submissions_are_forecasters_and_of_two_at_once_none_is_lost,
)

__all__ = [
    "test_a_finished_recording_moves_into_the_store_and_an_unfinished_one_stays",
    "test_a_folder_is_replaced_and_its_copy_with_it",
    "test_episodes_of_one_machine_are_traded_by_another",
    "test_of_two_writers_of_a_file_one_is_refused",
    "test_readers_of_a_folder_that_is_replaced_again_and_again_see_one_version",
    "test_submissions_are_forecasters_and_of_two_at_once_none_is_lost",
    "test_unchanged_files_are_left_as_they_are",
]

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
_PREFIXES = itertools.count()


@pytest.fixture
def bucket(object_store: Process, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty prefix on SeaweedFS."""
    for name, value in credentials(object_store.url).items():
        monkeypatch.setenv(name, value)
    return f"s3://bellwether/files-{next(_PREFIXES)}"
