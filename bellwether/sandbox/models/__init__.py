"""OpenAI-compatible endpoint whose models have known skill: they distort the generated world's truth in a known way."""

from bellwether.sandbox.models.beliefs import Truth
from bellwether.sandbox.models.endpoint import ModelEndpoint
from bellwether.sandbox.models.personalities import PERSONALITIES

__all__ = ["PERSONALITIES", "ModelEndpoint", "Truth"]
