"""Altered venue answers, for tests which verify that no later information is used."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

import httpx


class AlteringTransport(httpx.AsyncBaseTransport, ABC):
    """Transport that alters the objects of every JSON answer, outer ones first, and counts the changes."""

    def __init__(self, inner: httpx.AsyncBaseTransport, changed: Counter[str]) -> None:
        self._inner, self.changed = inner, changed

    @abstractmethod
    def change(self, item: dict[str, Any]) -> None:
        """Change an object in place."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        body = await answer.aread()
        try:
            document = json.loads(body)
        except ValueError:
            return httpx.Response(answer.status_code, headers=answer.headers, content=body)
        self._walk(document)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(document).encode())

    def _walk(self, value: Any) -> None:
        if isinstance(value, dict):
            self.change(value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._walk(child)
