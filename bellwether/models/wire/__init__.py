"""One request to a model's provider, and what came of it as an outcome of the journal."""

from bellwether.models.wire.call import Call, Result, Stop, ToolCall, Wire

__all__ = ["Call", "Result", "Stop", "ToolCall", "Wire"]
