"""A storage whose process is killed at a write."""

from __future__ import annotations

from typing import Any

from bellwether.lake.storage import Storage

#: Methods of a storage that change it.
WRITES = ("put", "stash", "publish", "delete")


class KilledStorage:
    """Storage that raises `killed` before or after its n-th write."""

    def __init__(self, storage: Storage, kill_at: int, moment: str, killed: type[BaseException]) -> None:
        self._storage = storage
        self._left = kill_at
        self._moment = moment
        self._killed = killed

    def __getattr__(self, name: str) -> Any:
        return self._dying(getattr(self._storage, name)) if name in WRITES else getattr(self._storage, name)

    def _dying(self, write: Any) -> Any:
        def write_or_die(*arguments: Any) -> Any:
            self._left -= 1
            if self._left <= 0 and self._moment == "before":
                raise self._killed
            result = write(*arguments)
            if self._left <= 0:
                raise self._killed
            return result

        return write_or_die


def writes_of_a_pull(requests: int) -> int:
    """Return the number of writes of a pull: each page is stored and later deleted, the merged file replaces an earlier one, and a manifest
    ends the pull.
    """
    return 2 * requests + 3
