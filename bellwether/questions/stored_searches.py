"""Documents that search services returned to the forecasts of a release, read from the journal for audits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from bellwether.corpus.documents import Document
from bellwether.corpus.index import Hit, split_terms
from bellwether.corpus.search_results import find_withholding, read_results, to_hit
from bellwether.forecasting.tools import SEARCHES, search_scope
from bellwether.journal.journal import Journal
from bellwether.models.providers import SEARCH


class StoredSearches:
    """Results of a service by the instant of the forecast. Searched and opened like a `Corpus`, but only at instants of forecasts.

    service: its name in the registry.
    """

    def __init__(self, journal: Journal, service: str) -> None:
        self._journal, self._service = journal, service
        self._documents: dict[datetime, list[Document]] = {}

    def search(self, query: str, as_of: datetime, limit: int = 10) -> list[Hit]:
        """Return the visible results of all searches as of an instant that share most terms with a text, then by id."""
        terms = split_terms(query)
        visible = {document.id: document for document in self._read(as_of) if find_withholding(document, as_of) is None}
        shared = {id_: len({*terms} & {*split_terms(f"{document.title}\n{document.text}")}) for id_, document in visible.items()}
        best = sorted((id_ for id_, count in shared.items() if count), key=lambda id_: (-shared[id_], id_))
        return [to_hit(visible[id_], terms) for id_ in best[:limit]]

    def find(self, document_id: str, as_of: datetime) -> Document | None:
        """Return a visible result of the searches as of an instant; None for an unknown id."""
        found = (document for document in self._read(as_of) if document.id == document_id and find_withholding(document, as_of) is None)
        return next(found, None)

    def count_withheld(self, instants: Iterable[datetime]) -> dict[str, int]:
        """Count the results by the reason of their withholding, as `Corpus.count_withheld` names it, and those that were `visible`."""
        reasons = Counter(find_withholding(document, as_of) or "visible" for as_of in {*instants} for document in self._read(as_of))
        return dict(sorted(reasons.items()))

    def _read(self, as_of: datetime) -> list[Document]:
        """Return all results of searches as of an instant."""
        if as_of not in self._documents:
            scope = search_scope(as_of.astimezone(UTC), "")
            bodies = self._journal.bodies(SEARCHES, f"{SEARCH}/{self._service}", scope) if self._journal.exists() else []
            self._documents[as_of] = [document for body in bodies for document in read_results(self._service, body)]
        return self._documents[as_of]
