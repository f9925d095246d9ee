"""What recording costs: CPU seconds per second while 5,000 frames a second come, none of which may be lost.

BELLWETHER_BENCH_MINUTES=10 makes it run for ten minutes instead of half of one.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

from bellwether.recordings.gaps import gap_report
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import About, Recording
from bellwether.venues.kalshi.stream.frame import envelope

RATE = 5_000
SECONDS = 60.0 * float(os.environ.get("BELLWETHER_BENCH_MINUTES", "0.5"))
TARGET = 0.5
TEMPLATES = 20_000
#: How often the server sends what is due.
BEAT = 0.01


def _templates() -> list[tuple[bytes, int, bytes]]:
    """Realistic frames around their numbers: what comes before, the subscription, and what comes after."""
    from bellwether.sandbox.exchange.frames import realistic_frames

    found = []
    for data in realistic_frames(TEMPLATES):
        _, sid, seq = envelope(data)
        head, _, tail = data.partition(b'"seq":%d' % seq)
        found.append((head + b'"seq":', sid or 0, tail))
    return found


def _frames():
    numbers: dict[int, Any] = {}
    for head, sid, tail in cycle(_templates()):
        yield head + b"%d" % next(numbers.setdefault(sid, count(1))) + tail


async def _serve(frames: int) -> None:
    """Serve one client: whatever it asks is confirmed, then `frames` frames come at the rate, then the connection is closed."""
    from websockets.asyncio.server import ServerConnection, serve

    over = asyncio.Event()
    source = islice(_frames(), frames)
    first = next(source)

    async def blast(socket: ServerConnection) -> None:
        for number, command in enumerate([json.loads(await socket.recv())], 1):
            for channel in command["params"]["channels"]:
                answer = {"id": command["id"], "type": "subscribed", "msg": {"channel": channel, "sid": number}}
                await socket.send(json.dumps(answer))
        await socket.send(first.decode())
        began, sent = time.monotonic(), 1
        with suppress(Exception):
            while sent < frames:
                due = min(frames, int((time.monotonic() - began) * RATE) + 1)
                for data in islice(source, due - sent):
                    await socket.send(data.decode())
                sent = max(sent, due)
                await asyncio.sleep(BEAT)
            await socket.wait_closed()
        over.set()

    async with serve(blast, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await over.wait()


async def _record(url: str, folder: Path, frames: int) -> None:
    """Record until all frames came, as `bellwether record` does."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    from bellwether.recordings.record import listen
    from bellwether.venues.kalshi.stream.client import KalshiStream
    from bellwether.venues.kalshi.stream.frame import DELTA, TRADE
    from bellwether.venues.kalshi.stream.protocol import Wanted
    from bellwether.venues.kalshi.stream.signing import Credentials

    credentials = Credentials("benchmark", rsa.generate_private_key(public_exponent=65537, key_size=2048))
    channels = (DELTA, TRADE)
    with Recorder(folder, About("kalshi", "websocket", ("BENCH",), ("BENCH-A",), channels, "benchmark")) as recorder:
        stream = KalshiStream(url, credentials, Wanted(("BENCH-A",), channels))
        listening = asyncio.create_task(listen(stream, recorder))
        while recorder.frames == 0:
            await asyncio.sleep(0.01)
        cpu, wall = time.process_time(), time.monotonic()
        while recorder.frames < frames:
            await asyncio.sleep(0.1)
        spent = {"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "connections": stream.connections}
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    spent["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(spent))


def measure(frames: int) -> dict[str, float]:
    """Record so many frames from a server process in another process. Raises `AssertionError` when a frame was lost."""
    start = [sys.executable, "-m", "benchmarks.recorder"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([*start, "serve", str(frames)], stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = f"ws://127.0.0.1:{int(server.stdout.readline())}/trade-api/ws/v2"
            target = Path(folder) / "benchmark"
            done = subprocess.run([*start, "record", url, str(target), str(frames)], capture_output=True, text=True, check=True)
            report = gap_report(Recording(target))
        finally:
            server.kill()
    numbered = sum(numbers.received for numbers in report.numbers)
    if report.lost or report.connections != 1 or numbered != frames:
        raise AssertionError(f"{numbered} of {frames} frames came, {report.lost} were lost, over {report.connections} connections")
    return json.loads(done.stdout)


def run() -> list[dict[str, Any]]:
    """One result: CPU seconds of the recorder per second at 5,000 frames a second."""
    frames = int(RATE * SECONDS)
    spent = measure(frames)
    return [
        {
            "name": f"CPU of recording {RATE:,} frames/s / one core",
            "ratio": spent["cpu"] / spent["wall"],
            "target": TARGET,
            "detail": f"{frames:,} frames in {spent['wall']:.1f} s, {spent['cpu'] / frames * 1e6:.0f} µs each, peak {spent['peak_mb']:.0f} MB; 0 lost",
        }
    ]


def main() -> None:
    """Print the result; or serve, or record, in this process."""
    match sys.argv[1:]:
        case ["serve", frames]:
            asyncio.run(_serve(int(frames)))
        case ["record", url, folder, frames]:
            asyncio.run(_record(url, Path(folder), int(frames)))
        case _:
            for result in run():
                print(f"{result['name']}: {result['ratio']:.2f} (target {result['target']}): {result['detail']}")


if __name__ == "__main__":
    main()
