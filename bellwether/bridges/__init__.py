"""Bridges to other tools: their questions and forecasts are read, and releases are written in their formats. One module per tool."""
