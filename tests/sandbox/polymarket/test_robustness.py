"""No request, however odd, is answered with a failure of the server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ODD = [
    "0",
    "-1",
    "999999999999999999",
    "1e400",
    "NaN",
    "٣",
    "true",
    "9999-12-31",
    "0001-01-01T00:00:00+14:00",
    "LTE=",
    "WzBd",
    "W10=",
    "0x" + "f" * 64,
    "7" * 78,
]
NAMES = {
    "/gamma/markets/keyset": [
        "limit",
        "after_cursor",
        "id",
        "condition_ids",
        "clob_token_ids",
        "slug",
        "end_date_min",
        "end_date_max",
        "volume_num_min",
        "order",
        "tag_id",
    ],
    "/gamma/events": ["limit", "offset", "id", "slug", "start_date_min", "closed", "ascending", "order"],
    "/gamma/events/keyset": ["limit", "after_cursor", "cursor", "end_date_max"],
    "/clob/prices-history": ["market", "startTs", "endTs", "fidelity", "interval"],
    "/clob/markets": ["next_cursor"],
    "/clob/trades": ["market", "limit", "offset"],
    "/clob/book": ["token_id"],
    "/clob/price": ["token_id", "side"],
    "/clob/fee-rate": ["token_id"],
}
QUESTIONS = st.sampled_from(sorted(NAMES)).flatmap(
    lambda path: st.tuples(
        st.just(path), st.dictionaries(st.sampled_from(NAMES[path]), st.one_of(st.sampled_from(ODD), st.text(max_size=20)), max_size=3)
    )
)


@given(question=QUESTIONS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_parameters_are_answered_or_refused(site: Any, question: tuple[str, dict[str, str]]) -> None:
    path, params = question
    response = site.response(path, **({"closed": "false"} if path.startswith("/gamma") else {}) | params)
    assert response.status_code in (200, 400, 404, 422)
    if response.status_code != 200:
        assert response.json()["error"]


@pytest.mark.parametrize("value", ODD)
def test_odd_paths_are_answered_or_refused(site: Any, value: str) -> None:
    for path in ("/gamma/markets/", "/gamma/events/", "/gamma/markets/slug/", "/gamma/events/slug/", "/clob/markets/"):
        assert site.response(path + value).status_code in (200, 404, 422)


def test_very_fine_and_very_coarse_history(site: Any) -> None:
    import json

    token = json.loads(site.get("/gamma/markets/keyset", closed="false", limit=1)["markets"][0]["clobTokenIds"])[0]
    for params in (
        {"startTs": 10**17},
        {"startTs": 0, "fidelity": 10**17},
        {"startTs": 0, "endTs": 0},
        {"startTs": 0, "endTs": 10**17, "fidelity": 720},
    ):
        assert isinstance(site.get("/clob/prices-history", market=token, **params)["history"], list)
