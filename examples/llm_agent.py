"""A language model trades a recorded event by tool calls. The recorded trajectory then repeats the run exactly, without calling the model.

    python examples/llm_agent.py .bellwether/sandbox/episodes/KXMLBGAME-26SEP282300NYYBOS [MODEL] [DOLLARS]

MODEL is a name of `bellwether models`; the default is a model of the sandbox, which costs nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bellwether.replay import Backtest, BacktestSettings, load, run
from bellwether.replay.agents.llm import LLMAgent, LLMReplay
from bellwether.replay.units import SECOND


def main(folder: Path, model: str = "sandbox-calibrated", dollars: float = 1.0, trajectory: Path = Path("trajectory.jsonl")) -> Backtest:
    """Run the model every 300 s of the episode in `folder`, store its trajectory, and repeat the run from the stored trajectory."""
    episode, settings = load(folder), BacktestSettings(cadence=300 * SECOND)
    first = run(episode, LLMAgent(model=model, budget=dollars, trajectory=str(trajectory)), settings)
    print(first.summary.select("episode", "agent", "bankroll", "final_equity"))

    again = run(episode, LLMReplay(trajectory=str(trajectory)), settings)
    assert again.digest == first.digest
    return first


if __name__ == "__main__":
    file, *rest = sys.argv[1:]
    main(Path(file), *rest[:1], *map(float, rest[1:2]))
