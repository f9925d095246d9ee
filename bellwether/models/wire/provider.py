"""The wire to real providers: each call takes the transport that its model needs, and transports are opened when they are first needed."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bellwether.models.wire.call import Call, Result
from bellwether.models.wire.routes import direct

if TYPE_CHECKING:
    from bellwether.models.wire.direct import Direct
    from bellwether.models.wire.litellm import LiteLLM


class ProviderWire:
    """Sends calls to providers. Use it as an async context manager, in one event loop.

    connections: most connections at a time, over all models; how many calls are under way is for the client to limit.
    """

    def __init__(self, *, connections: int = 256) -> None:
        self._connections = connections
        self._direct: Direct | None = None
        self._litellm: LiteLLM | None = None

    async def __aenter__(self) -> Self:
        from bellwether.models.wire.direct import Direct

        self._stack = AsyncExitStack()
        self._direct = await self._stack.enter_async_context(Direct(self._connections))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._stack.aclose()

    async def send(self, call: Call) -> Result:
        """Send `call` once. Never raises for what a provider can do; see `Result`."""
        assert self._direct is not None, "a wire is used within `async with`"
        route = direct(call.model, call.endpoint)
        if route is not None:
            return await self._direct.send(call, route)
        if self._litellm is None:
            from bellwether.models.wire.litellm import LiteLLM

            self._litellm = LiteLLM()
            self._stack.push_async_callback(self._litellm.close)
        return await self._litellm.send(call)
