"""Rate limits as the services enforce them: Kalshi's token bucket, Polymarket's windows, and a model provider's requests and tokens."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.errors import ConfigError
from bellwether.sandbox.bodies import handing_out, read_body
from bellwether.sandbox.services import OpenAIError, Service, locate, refusal

#: Length of Polymarket's windows (seconds).
WINDOW = 10.0
_OTHERWISE = ""

_MOST_KEYS = 1024
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """The terms; the defaults are the venues' documented ones for their lowest tier, and a small account with a model provider.

    Attributes:
        tokens_per_second: rate at which Kalshi's bucket fills.
        burst_seconds: what the full bucket holds, in seconds of that rate.
        cost: tokens that one request to Kalshi takes.
        gamma, clob: most requests per ten seconds to paths that begin so; "" is the service as a whole.
        patience: seconds for which Polymarket delays a request before it refuses it instead.
        requests_per_minute, tokens_per_minute: of the model endpoint, per key; tokens are those of the prompt and those allowed for the answer.
    """

    tokens_per_second: float = 200.0
    burst_seconds: float = 2.0
    cost: float = 10.0
    gamma: tuple[tuple[str, int], ...] = ((_OTHERWISE, 4000), ("/events", 500), ("/markets", 300))
    clob: tuple[tuple[str, int], ...] = (
        (_OTHERWISE, 9000),
        ("/book", 1500),
        ("/books", 500),
        ("/price", 1500),
        ("/prices", 500),
        ("/midpoint", 1500),
        ("/midpoints", 500),
        ("/prices-history", 1000),
        ("/trades", 200),
    )
    patience: float = 2.0
    requests_per_minute: float = 500.0
    tokens_per_minute: float = 200_000.0

    def __post_init__(self) -> None:
        if min(self.tokens_per_second, self.burst_seconds, self.cost) <= 0 or self.tokens_per_second * self.burst_seconds < self.cost:
            raise ConfigError(f"limit the sandbox's rate: {self} never lets a request pass; the bucket must hold at least the cost of one")
        windows = [most for _, most in (*self.gamma, *self.clob)]
        if min(*windows, self.requests_per_minute, self.tokens_per_minute) < 1 or not self.patience >= 0:
            raise ConfigError(
                f"limit the sandbox's rate: {self} never lets a request pass; take at least 1 everywhere, and a patience of at least 0"
            )


class Bucket:
    """Fills at `rate` tokens per second of `monotonic` up to `capacity`, and gives tokens as long as there are any."""

    def __init__(self, rate: float, capacity: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._capacity = capacity
        self._monotonic = monotonic
        self._tokens = capacity
        self._filled_at = monotonic()

    def missing(self, cost: float) -> float:
        """Seconds until it holds `cost` tokens: 0 when it does, infinite when it never will."""
        now = self._monotonic()
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if cost > self._capacity:
            return math.inf
        return max(0.0, (cost - self._tokens) / self._rate)

    def take(self, cost: float) -> bool:
        """Take so many tokens; False when it does not hold them."""
        if self.missing(cost) > 0:
            return False
        self._tokens -= cost
        return True


class Window:
    """Lets at most `most` requests begin in any `WINDOW` seconds; the others have to wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._admitted: deque[float] = deque()

    def free_at(self, now: float) -> float:
        """When the next request may begin: now, or when the window has room again."""
        while self._admitted and self._admitted[0] <= now - WINDOW:
            self._admitted.popleft()
        return max(now, self._admitted[-self._most] + WINDOW) if len(self._admitted) >= self._most else now

    def admit(self, at: float) -> None:
        """Count a request that begins then."""
        self._admitted.append(at)


class Windows:
    """The windows of one service: that of the whole service, and that of the path's own group."""

    def __init__(self, groups: tuple[tuple[str, int], ...]) -> None:
        self._windows = {prefix: Window(most) for prefix, most in groups}

    def _of(self, path: str) -> list[Window]:
        first = "/" + path.lstrip("/").partition("/")[0]
        return [self._windows[group] for group in (_OTHERWISE, first) if group in self._windows]

    def delay(self, path: str, now: float, patience: float) -> float | None:
        """Seconds for which a request to this path has to wait, which is then counted; None when that is longer than `patience`."""
        windows = self._of(path)
        begins = max((window.free_at(now) for window in windows), default=now)
        if begins - now > patience:
            return None
        for window in windows:
            window.admit(begins)
        return begins - now


@dataclass(frozen=True, slots=True)
class _Account:
    """What one key has left with the model provider."""

    requests: Bucket
    tokens: Bucket


class Accounts:
    """Requests and tokens per minute of each key. Keys are kept as digests; the one not used for longest is forgotten first."""

    def __init__(self, limits: Limits, monotonic: Callable[[], float]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._accounts: OrderedDict[bytes, _Account] = OrderedDict()

    def _account(self, authorization: bytes) -> _Account:
        key = hashlib.sha256(authorization).digest()
        if key not in self._accounts:
            self._accounts[key] = _Account(
                Bucket(self._limits.requests_per_minute / 60, self._limits.requests_per_minute, self._monotonic),
                Bucket(self._limits.tokens_per_minute / 60, self._limits.tokens_per_minute, self._monotonic),
            )
        self._accounts.move_to_end(key)
        if len(self._accounts) > _MOST_KEYS:
            self._accounts.popitem(last=False)
        return self._accounts[key]

    def refuse(self, authorization: bytes, body: bytes) -> Response | None:
        """Take what this request needs; the refusal when the key has too little left."""
        account, tokens = self._account(authorization), needed_tokens(body)
        waits = {"requests": account.requests.missing(1), "tokens": account.tokens.missing(tokens)}
        kind = max(waits, key=lambda name: waits[name])
        if waits[kind] == 0:
            account.requests.take(1)
            account.tokens.take(tokens)
            return None
        most = {"requests": self._limits.requests_per_minute, "tokens": self._limits.tokens_per_minute}[kind]
        asked = {"requests": 1, "tokens": tokens}[kind]
        if math.isinf(waits[kind]):
            message = f"Request too large: {asked} {kind}, limit {most:g} {kind} per min."
            return OpenAIError(429, message, kind, "rate_limit_exceeded").response()
        message = f"Rate limit reached for {kind} per min: Limit {most:g}, Requested {asked}. Please try again in {waits[kind]:.3f}s."
        return OpenAIError(429, message, kind, "rate_limit_exceeded", retry_after=max(1, math.ceil(waits[kind]))).response()


def needed_tokens(body: bytes) -> int:
    """Tokens that a chat request may need: a quarter of its characters, and what it allows for the answers."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        asked = {}
    asked = asked if isinstance(asked, dict) else {}
    allowed = asked.get("max_completion_tokens") or asked.get("max_tokens") or 0
    choices = asked.get("n") or 1
    answers = allowed * choices if isinstance(allowed, int) and isinstance(choices, int) else 0
    return len(body) // _CHARACTERS_PER_TOKEN + max(answers, 0)


class RateLimited:
    """ASGI middleware: requests beyond a service's limits are delayed or refused as that service does it. WebSockets pass.

    Kalshi answers 429 without Retry-After. Polymarket's gateway first delays, then answers 429. The model endpoint answers 429 with
    Retry-After in whole seconds, except to a request that it could never serve.

    Attributes:
        monotonic: seconds from any origin, the time in which the limits count.
        sleep: waits so many of them.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._app = app
        self._limits = limits
        self._monotonic = monotonic
        self._sleep = sleep
        self._kalshi = Bucket(limits.tokens_per_second, limits.tokens_per_second * limits.burst_seconds, monotonic)
        self._windows = {Service.GAMMA: Windows(limits.gamma), Service.CLOB: Windows(limits.clob)}
        self._accounts = Accounts(limits, monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it for its rate."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service, path = locate(scope["path"])
        refused: Response | None = None
        if service is Service.KALSHI:
            refused = None if self._kalshi.take(self._limits.cost) else refusal(service, 429)
        elif service in self._windows:
            refused = await self._wait(service, path)
        elif service is Service.MODELS and scope["method"] == "POST":
            body = await read_body(receive)
            receive = handing_out(body, receive)
            refused = self._accounts.refuse(dict(scope["headers"]).get(b"authorization", b""), body)
        await (refused or self._app)(scope, receive, send)

    async def _wait(self, service: Service, path: str) -> Response | None:
        delay = self._windows[service].delay(path, self._monotonic(), self._limits.patience)
        if delay is None:
            return refusal(service, 429)
        if delay:
            await self._sleep(delay)
        return None
