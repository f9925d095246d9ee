"""Language model agents: the model reads the state as text and trades by tool calls. The trajectory, which stores the steps of a run, can
be replayed without the model.
"""

from bellwether.replay.agents.llm.agent import LLMAgent, LLMReplay, Suspended
from bellwether.replay.agents.llm.trajectory import Mismatch, Trajectory

__all__ = ["LLMAgent", "LLMReplay", "Mismatch", "Suspended", "Trajectory"]
