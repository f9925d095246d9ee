"""Services of the sandbox: their paths and their error responses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import orjson
from starlette.responses import Response

#: Path of each service; Kalshi's are as on the venue.
KALSHI_PATH = "/trade-api/v2"
KALSHI_STREAM_PATH = "/trade-api/ws/v2"
GAMMA_PATH = "/gamma"
CLOB_PATH = "/clob"
MODELS_PATH = "/v1"
CONTROL_PATH = "/sandbox"


class Service(Enum):
    """Service of the sandbox."""

    KALSHI = "kalshi"
    KALSHI_STREAM = "kalshi stream"
    GAMMA = "gamma"
    CLOB = "clob"
    MODELS = "models"
    CONTROL = "control"
    NONE = "none"


_MOUNTS = {
    KALSHI_PATH: Service.KALSHI,
    KALSHI_STREAM_PATH: Service.KALSHI_STREAM,
    GAMMA_PATH: Service.GAMMA,
    CLOB_PATH: Service.CLOB,
    MODELS_PATH: Service.MODELS,
    CONTROL_PATH: Service.CONTROL,
}


def find_service(path: str) -> tuple[Service, str]:
    """Return the service of a path, and the path relative to the service."""
    for mount, service in _MOUNTS.items():
        if path == mount or path.startswith(f"{mount}/"):
            return service, path[len(mount) :]
    return Service.NONE, path


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


_GATEWAYS = {502: "Bad Gateway", 503: "Service Temporarily Unavailable", 504: "Gateway Time-out"}
_MODEL_ERRORS = {
    401: OpenAIError(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    402: OpenAIError(402, "Insufficient credits: add credit to your account to go on.", "insufficient_quota", "insufficient_credits"),
    429: OpenAIError(429, "Rate limit reached for requests. Please try again in 1s.", "requests", "rate_limit_exceeded", retry_after=1),
    500: OpenAIError(500, "The server had an error while processing your request. Sorry about that!", "server_error"),
}
_WORDS = {401: "authentication_error", 402: "payment_required", 429: "too_many_requests", 500: "internal_server_error"}


def build_web_page(title: str, status: int = 200) -> Response:
    """Build an HTML response, as from proxies and during maintenance."""
    body = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    return Response(body, status, media_type="text/html")


def build_refusal(service: Service, status: int) -> Response:
    """Build the error response of a service for status 401, 402, 429, 500, 502, 503 or 504."""
    if status in _GATEWAYS:
        return build_web_page(f"{status} {_GATEWAYS[status]}", status)
    if service is Service.MODELS:
        return _MODEL_ERRORS[status].response()
    if service in (Service.GAMMA, Service.CLOB):
        if status == 429:
            return Response("error code: 1015", status, media_type="text/plain")
        return Response(orjson.dumps({"error": _WORDS[status].replace("_", " ")}), status, media_type="application/json")
    if status == 429:
        return Response(b'{"error":"too many requests"}', status, media_type="application/json")
    error = {"code": _WORDS[status], "message": _WORDS[status].replace("_", " "), "details": ""}
    return Response(orjson.dumps({"error": error}), status, media_type="application/json")
