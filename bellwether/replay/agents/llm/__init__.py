"""Language model agents: the model reads a text state, trades by tool calls, and leaves a trajectory that can be replayed."""

from bellwether.replay.agents.llm.agent import LLMAgent, LLMReplay, Suspended
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory

__all__ = ["LLMAgent", "LLMReplay", "Mismatch", "Suspended", "Trajectory"]
