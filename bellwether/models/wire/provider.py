"""The wire to real providers: each call takes the transport that its model needs, and transports are opened when they are first needed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bellwether.models.providers import SANDBOX
from bellwether.models.wire.call import Call, Result
from bellwether.models.wire.routes import direct

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from bellwether.models.wire.direct import Direct
    from bellwether.models.wire.in_process import InProcess
    from bellwether.models.wire.litellm import LiteLLM


class ProviderWire:
    """Sends calls to providers. Use it as an async context manager, in one event loop.

    connections: most connections at a time, over all models; how many calls are under way is for the client to limit.
    sandbox: the application of this process that answers for the sandbox's models; None where they are served, or there are none.
    """

    def __init__(self, *, connections: int = 256, sandbox: ASGIApp | None = None) -> None:
        self._connections = connections
        self._sandbox = sandbox
        self._in_process: InProcess | None = None
        self._direct: Direct | None = None
        self._litellm: LiteLLM | None = None

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        if self._sandbox is not None:
            from bellwether.models.wire.in_process import InProcess

            self._in_process = InProcess(self._sandbox)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._stack.aclose()

    async def send(self, call: Call) -> Result:
        """Send `call` once. Never raises for what a provider can do; see `Result`."""
        route = direct(call.model, call.endpoint)
        if route is not None and self._in_process is not None and call.model.provider == SANDBOX:
            return await self._in_process.send(call, route)
        if route is not None:
            return await self._over_http().send(call, route)
        if self._litellm is None:
            from bellwether.models.wire.litellm import LiteLLM

            self._litellm = LiteLLM()
            self._stack.push_async_callback(self._litellm.close)
        return await self._litellm.send(call)

    def _over_http(self) -> Direct:
        if self._direct is None:
            from bellwether.models.wire.direct import Direct

            self._direct = Direct(self._connections)
            self._stack.push_async_callback(self._direct.close)
        return self._direct
