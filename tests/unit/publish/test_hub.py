"""Uploads to a simulated Hub: sent files, refusals, and no output of the token."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bellwether.errors import BellwetherError, ConfigError
from bellwether.publish import export, upload
from bellwether.publish.card import CARD, DATA
from bellwether.publish.croissant import CROISSANT
from bellwether.sandbox import serve
from bellwether.settings import World
from tests.unit.publish.rows import questions

TOKEN = "hf_verysecret0123456789abcdef"
NAME = "me/made-up"


class Hub:
    """The Hub's calls for an upload: one repository with its files and commits."""

    def __init__(self) -> None:
        self.refusal: int | None = None
        self.is_private: bool | None = None
        self.files: dict[str, bytes] = {}
        self.commits = 0
        self.calls: list[Request] = []
        self.app = Starlette(
            routes=[
                Route("/api/repos/create", self._create, methods=["POST"]),
                Route("/api/validate-yaml", self._validate, methods=["POST"]),
                Route("/api/datasets/{repo:path}/preupload/{revision}", self._preupload, methods=["POST"]),
                Route("/api/datasets/{repo:path}/commit/{revision}", self._commit, methods=["POST"]),
                Route("/api/datasets/{repo:path}", self._info),
            ]
        )

    def _refused(self, request: Request) -> Response | None:
        self.calls.append(request)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": f"Invalid credentials {request.headers.get('authorization')}"}, 401)
        return JSONResponse({"error": "refused"}, self.refusal) if self.refusal else None

    async def _create(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        asked = await request.json()
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if self.is_private is not None:
            return JSONResponse({"error": "You already created this dataset repo", "url": f"{request.base_url}datasets/{name}"}, 409)
        self.is_private = bool(asked.get("private")) or asked.get("visibility") == "private"
        return JSONResponse({"url": f"{request.base_url}datasets/{name}"})

    async def _validate(self, request: Request) -> Response:
        return JSONResponse({"errors": [], "warnings": []})

    async def _info(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse({"id": NAME, "private": self.is_private, "sha": "0" * 40, "siblings": [], "tags": []})

    async def _preupload(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        files = (await request.json())["files"]
        return JSONResponse({"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]})

    async def _commit(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        lines: list[dict[str, Any]] = [json.loads(line) for line in (await request.body()).splitlines()]
        self.files |= {line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines if line["key"] == "file"}
        self.commits += 1
        return JSONResponse({"commitUrl": f"{request.base_url}datasets/{NAME}/commit/1", "commitOid": "1" * 40, "pullRequestUrl": None})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    pytest.importorskip("huggingface_hub", reason="the extra `huggingface` is not installed")
    made = Hub()
    with serve(made.app) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.root)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return export(questions(), tmp_path / "out", world=World.LIVE).folder


def test_an_upload_makes_the_repository_and_puts_the_folder_into_one_commit(played: Hub, folder: Path) -> None:
    address = upload(folder, NAME)
    assert address.endswith(f"/datasets/{NAME}")
    assert (played.commits, played.is_private) == (1, False)
    assert played.files == {name: (folder / name).read_bytes() for name in (CARD, CROISSANT, DATA)}


def test_a_private_upload_to_a_public_repository_sends_nothing(played: Hub, folder: Path) -> None:
    played.is_private = False
    with pytest.raises(ConfigError, match="public"):
        upload(folder, NAME, private=True)
    assert played.files == {}


def test_files_that_somebody_put_into_the_folder_stay_at_home(played: Hub, folder: Path) -> None:
    (folder / ".env").write_text("SECRET=1", encoding="utf-8")
    upload(folder, NAME)
    assert played.files.keys() == {CARD, CROISSANT, DATA}


@pytest.mark.parametrize("status", [403, 404, 429])
def test_a_refusal_of_the_hub_states_its_status(played: Hub, folder: Path, status: int) -> None:
    played.refusal = status
    with pytest.raises(BellwetherError, match=f"HTTP {status}"):
        upload(folder, NAME)


@pytest.mark.parametrize("token", ["", "hf_verysecret and more", "hf_wrongsecret0123456789"])
def test_a_missing_or_wrong_token_sends_no_file_and_is_not_shown(
    played: Hub, folder: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(BellwetherError) as error:
        upload(folder, NAME)
    assert "secret" not in str(error.value)
    assert played.files == {}


def test_a_hub_out_of_reach_does_not_show_the_token(folder: Path, played: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(BellwetherError) as error:
        upload(folder, NAME)
    assert TOKEN not in str(error.value)


def test_a_name_of_no_repository_is_refused(folder: Path) -> None:
    for name in ("made-up", "me/made/up", "../etc", "me/", "me/a b"):
        with pytest.raises(ConfigError):
            upload(folder, name)
