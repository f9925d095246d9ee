"""Local server with the part of Metaculus's interface that bots use: it asks the questions of a release, and stores the answers as a submission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import polars as pl
from pydantic import Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bellwether.bridges.files import FilePart
from bellwether.bridges.metaculus import HIGHEST, LOWEST, VENUE
from bellwether.errors import ConfigError
from bellwether.forecasting.elicitation_run import forecast_instant
from bellwether.registry import NAME, NAME_RULE
from bellwether.submissions import Submissions, validate_rows

#: Root of the interface below the server's address.
API_PATH = "/api"
#: Time of the forecasts before the close.
HORIZON = "24h"


class _Answer(FilePart):
    question: int
    probability_yes: Annotated[float, Field(ge=LOWEST, le=HIGHEST)]


_ANSWERS = TypeAdapter(Annotated[list[_Answer], Field(min_length=1)])


class Interview:
    """Questions of a release for one bot, and its answers.

    Forecasts are dated a day before the close of their question.
    """

    def __init__(
        self,
        questions: pl.DataFrame,
        store: Submissions,
        forecaster: str,
        *,
        taken: Collection[str] = (),
        clock: Callable[[], datetime],
    ) -> None:
        """Prepare the questions.

        questions: rows of benchmark/questions of one release. store: of the answers. forecaster: name of the bot. taken: names of other forecasters.
        Raises `ConfigError` for an invalid name, and for a release without questions that have an opening time.
        """
        if not NAME.fullmatch(forecaster):
            raise ConfigError(f"serving questions: {forecaster!r} is not a valid forecaster name; {NAME_RULE}")
        if forecaster in taken:
            raise ConfigError(f"serving questions: {forecaster} is a forecaster already; choose another name")
        asked = questions.with_columns(as_of=forecast_instant(HORIZON)).filter(pl.col("as_of") < pl.col("close_time"))
        if asked.is_empty():
            raise ConfigError("serving questions: none has an opening time at which it could be asked; choose another release")
        self._rows: dict[int, Mapping[str, Any]] = {_number(row): row for row in asked.iter_rows(named=True)}
        self._markets = asked.select("market_id", "open_time", "close_time", venue="source")
        self._store, self._forecaster, self._clock = store, forecaster, clock

    def posts(self) -> list[dict[str, Any]]:
        """Return all questions as posts of the interface."""
        return [self._post(number, row) for number, row in self._rows.items()]

    def _post(self, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        opened, closes = row["open_time"].isoformat(), row["close_time"].isoformat()
        tournament = {"id": 1, "type": "tournament", "name": row["release"], "slug": row["release"], "visibility": "normal"}
        times = {"open_time": opened, "scheduled_close_time": closes, "scheduled_resolve_time": closes, "published_at": opened}
        return {
            **times,
            "id": int(row["event_id"]) if row["source"] == VENUE else number,
            "title": row["question"],
            "status": "open",
            "nr_forecasters": 0,
            "forecasts_count": 0,
            "projects": {"tournament": [tournament], "default_project": tournament},
            "question": {
                **times,
                "id": number,
                "title": row["question"],
                "type": "binary",
                "status": "open",
                "resolution": None,
                "resolution_criteria": row["description"],
                "fine_print": "",
                "description": f"Forecast it as of {row['as_of']:%Y-%m-%d %H:%M} UTC.",
                "aggregations": {"recency_weighted": {"history": [], "latest": None}},
                "my_forecasts": {"history": [], "latest": None},
            },
        }

    def store(self, answers: Sequence[tuple[int, float]]) -> str | None:
        """Store answers, each the number of a question and a probability, together. Returns the reason if one is refused; then none is stored."""
        if unknown := [number for number, _ in answers if number not in self._rows]:
            return f"question {unknown[0]}: there is no such question"
        asked = [self._rows[number] for number, _ in answers]
        stated = pl.DataFrame(
            {
                "row": range(len(answers)),
                "market": [row["id"] for row in asked],
                "stated_at": [row["as_of"].isoformat() for row in asked],
                "probability": [repr(p) for _, p in answers],
            }
        )
        with self._store.lock():
            stored = self._store.read([self._forecaster])
            checked = validate_rows(stated, self._markets, stored, forecaster=self._forecaster, now=self._clock())
            if checked.refused.height:
                row, reason = checked.refused.row(0)
                return f"question {answers[row][0]}: {reason}"
            self._store.add(checked.accepted)
        return None


def _number(row: Mapping[str, Any]) -> int:
    """Return the number of a question in the interface: that at Metaculus, else its place in the release."""
    return int(row["market_id"]) if row["source"] == VENUE else row["ordinal"] + 1


def build_application(interview: Interview) -> Starlette:
    """Build the server's application. All questions are in the first page, because bots read no other."""

    async def list_posts(request: Request) -> Response:
        first = request.query_params.get("offset", "0") == "0"
        results = interview.posts() if first else []
        return JSONResponse({"count": len(results), "next": None, "previous": None, "results": results})

    async def show_post(request: Request) -> Response:
        number = request.path_params["number"]
        found = next((post for post in interview.posts() if post["id"] == number), None)
        return JSONResponse({"detail": f"there is no post {number}"}, 404) if found is None else JSONResponse(found)

    async def receive(request: Request) -> Response:
        if not request.headers.get("content-type", "").startswith("application/json"):  # a page of another site can send other types only
            return JSONResponse({"detail": "the content type must be application/json"}, 415)
        try:
            answers = _ANSWERS.validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return JSONResponse({"detail": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 400)
        reason = await run_in_threadpool(interview.store, [(answer.question, answer.probability_yes) for answer in answers])
        return JSONResponse({}, 201) if reason is None else JSONResponse({"detail": reason}, 400)

    async def ignore_comment(_: Request) -> Response:
        return JSONResponse({"id": 1}, 201)

    async def show_user(_: Request) -> Response:
        return JSONResponse({"id": 1, "username": "bot", "is_bot": True})

    routes: dict[str, tuple[str, Callable[[Request], Awaitable[Response]]]] = {
        "/posts/": ("GET", list_posts),
        "/posts/{number:int}/": ("GET", show_post),
        "/questions/forecast/": ("POST", receive),
        "/comments/create/": ("POST", ignore_comment),
        "/users/me": ("GET", show_user),
    }
    return Starlette(routes=[Route(API_PATH + path, call, methods=[method]) for path, (method, call) in routes.items()])
