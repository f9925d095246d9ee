"""Language model agents: the model reads the state as text and trades by tool calls. The trajectory of a run is replayed without the model."""

from bellwether.replay.agents.llm.agent import LLMAgent, LLMReplay
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory

__all__ = ["LLMAgent", "LLMReplay", "Mismatch", "Trajectory"]
