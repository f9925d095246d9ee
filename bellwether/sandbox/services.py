"""Services of the sandbox: their paths, and the errors of the model endpoint."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from starlette.responses import Response

#: Path of each service; Kalshi's are as on the venue.
KALSHI_PATH = "/trade-api/v2"
KALSHI_STREAM_PATH = "/trade-api/ws/v2"
GAMMA_PATH = "/gamma"
CLOB_PATH = "/clob"
MODELS_PATH = "/v1"
CONTROL_PATH = "/sandbox"


@dataclass(frozen=True, slots=True)
class OpenAIError:
    """Error of the model endpoint, in OpenAI's format."""

    status: int
    message: str
    kind: str
    code: str | None = None
    param: str | None = None
    retry_after: int | None = None

    def response(self) -> Response:
        """Build the error response."""
        body = {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return Response(orjson.dumps(body), self.status, headers, "application/json")
