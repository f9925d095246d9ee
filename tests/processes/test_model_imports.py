"""What a process loads for model calls, and when."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_importing_the_client_loads_neither_litellm_nor_aiohttp() -> None:
    code = "import sys, bellwether.models.client, bellwether.models.prices as p; p.price_map_version(); print({'aiohttp', 'litellm'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


@pytest.mark.nightly
def test_litellm_is_loaded_quietly_and_without_a_network() -> None:
    code = """
import socket, sys
def refused(*args, **kwargs): raise AssertionError("LiteLLM wants the network")
socket.getaddrinfo = socket.create_connection = refused
from bellwether.models.transport import load_litellm
litellm = load_litellm()
from bellwether.models.prices import price_map
assert litellm.model_cost["gpt-4o"]["input_cost_per_token"] == price_map()["gpt-4o"]["input_cost_per_token"]
assert (litellm.telemetry, litellm.drop_params, litellm.success_callback) == (False, False, [])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
