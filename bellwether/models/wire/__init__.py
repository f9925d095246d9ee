"""One request to a model's provider, and what came of it as an outcome of the journal.

Two transports with equal semantics:

- **Directly**, over aiohttp: every endpoint of your own (`api_base`), the sandbox's models, the local one, and the hosted providers that speak
  OpenAI's chat completions (openai, openrouter, xai, deepseek, mistral, together_ai, fireworks_ai, groq, moonshot). LiteLLM's translation adds
  nothing there but the names of two parameters, and takes twenty times the processor time. The body is kept as it came.
- **LiteLLM** for the others (anthropic, gemini, vertex_ai, bedrock, azure, …), and for OpenAI's models that have the Responses interface only.
  Their own formats differ, and their OpenAI-like interfaces leave out reasoning. The body that is kept of an answer is LiteLLM's translation
  of it into OpenAI's form; of a failure, the provider's own.

Parameters are never dropped or bent to what a model allows: what the journal records is what was sent. A parameter that the provider refuses
is a failure with its words, and costs nothing.
"""

from bellwether.models.wire.call import Call, Result, Stop, ToolCall, Wire
from bellwether.models.wire.message import Message, read_reply
from bellwether.models.wire.provider import ProviderWire

__all__ = ["Call", "Message", "ProviderWire", "Result", "Stop", "ToolCall", "Wire", "read_reply"]
