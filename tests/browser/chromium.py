"""The distribution's Chromium, driven by Playwright, for tests and benchmarks of the site and for pictures of the README."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")  # fmt: skip
#: Numbers of marks of the charts of a page.
MARKS = "[...document.querySelectorAll('.chart .canvas')].map(one => one.querySelectorAll('svg [class^=mark-] path, svg [class^=mark-] line').length)"
_PAINT = """
window.painted = 0;
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.painted = entry.startTime; }).observe({ type: 'largest-contentful-paint', buffered: true });
"""


class Missing(Exception):
    """Playwright or Chromium is missing. The message states what to install."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Open a browser, and close it at the end. Raises `Missing`."""
    try:
        from playwright import sync_api
    except ImportError:
        raise Missing("playwright is not installed; install it: pip install playwright") from None
    executable = next((path for name in NAMES if (path := shutil.which(name))), None)
    if executable is None:
        raise Missing("there is no Chromium on this machine; install it (Debian: apt install chromium)")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def paint(browser: Any, page: Path) -> float:
    """Return the seconds until the largest content of a page is painted, in a new context of 1000 by 900 pixels that loads from disk."""
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    try:
        shown = context.new_page()
        shown.add_init_script(_PAINT)
        shown.goto(page.as_uri())
        shown.wait_for_timeout(500)
        return float(shown.evaluate("window.painted")) / 1000
    finally:
        context.close()


def picture(browser: Any, page: Path, title: str, *, lines: Sequence[str] = (), width: int = 760) -> bytes:
    """Return a PNG, on light paper, of the chart whose title begins with `title`. `lines`: names of the lines to draw; default as on the page.

    Raises `LookupError` if the page has no such chart or line.
    """
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light")
    try:
        shown = context.new_page()
        shown.goto(page.as_uri())
        charts = shown.locator("figure.chart")
        for place in range(charts.count()):
            chart = charts.nth(place)
            if chart.locator("figcaption").text_content().startswith(title):
                chart.scroll_into_view_if_needed()
                chart.locator("svg").wait_for(state="attached")
                _choose(chart, lines)
                shown.wait_for_timeout(500)
                chart.evaluate("one => one.querySelectorAll('.data, .picks input').forEach(part => part.remove())")
                return bytes(chart.screenshot())
        raise LookupError(f"{page} has no chart whose title begins with {title!r}")
    finally:
        context.close()


def _choose(chart: Any, lines: Sequence[str]) -> None:
    if not lines:
        return
    labels = chart.locator(".picks label")
    names = labels.all_text_contents()
    if missing := set(lines) - set(names):
        raise LookupError(f"the chart has no line {', '.join(sorted(missing))}; it has {', '.join(names)}")
    for place, name in enumerate(names):
        labels.nth(place).locator("input").set_checked(name in lines)
    chart.evaluate(
        "(one, lines) => one.querySelectorAll('.picks label').forEach(label => lines.includes(label.textContent) || label.remove())",
        list(lines),
    )


def draw(page: Any) -> list[int]:
    """Scroll through the page until every chart is drawn, and return the number of marks of each."""
    for place in range(page.locator(".chart").count()):
        chart = page.locator(".chart").nth(place)
        chart.scroll_into_view_if_needed()
        chart.locator("svg").wait_for(state="attached")
    marks: list[int] = page.evaluate(MARKS)
    return marks
