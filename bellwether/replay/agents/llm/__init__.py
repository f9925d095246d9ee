"""Language models as trading agents: they see the state in words, act through tools, and leave a trajectory that can be repeated."""

from bellwether.replay.agents.llm.agent import LLMAgent, LLMReplay, Suspended
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory

__all__ = ["LLMAgent", "LLMReplay", "Mismatch", "Suspended", "Trajectory"]
