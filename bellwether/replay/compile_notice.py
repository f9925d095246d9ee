"""Notice that the simulator is being compiled, which takes about a minute, once after an installation without `make`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

NOTICE = "Compiling the simulator, which takes about a minute; the result is kept for all later runs."


@contextmanager
def compile_notice(show: Callable[[str], object]) -> Iterator[None]:
    """Call `show` with `NOTICE`, at most once, when numba starts to compile a function of the simulator within the block."""

    class Listener(event.Listener):
        is_shown = False

        def on_start(self, event: event.Event) -> None:
            compiled = event.data["dispatcher"].py_func.__module__ if event.data else ""
            if not self.is_shown and compiled.startswith("bellwether.replay."):
                self.is_shown = True
                show(NOTICE)

        def on_end(self, event: event.Event) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield
