"""Page on the method: the three systems, what is measured, and what is not. Page for unknown addresses."""

from __future__ import annotations

from collections.abc import Iterator

from bellwether.pages.model import Cell, Links, Note, Page, Section
from bellwether.pages.render import NOT_FOUND, PARTS, File, render

_TEXT = {
    "Three systems": (
        "Prediction markets have what other benchmarks lack: questions that are still open, prices that are forecasts themselves, and order books in "
        "which forecasts can be traded. The benchmark scores forecasts, trading replays agents on recorded order books, and the "
        "arena follows agents that bet paper money on open markets from week to week.",
    ),
    "Benchmark: how good are the probabilities?": (
        "A release is a set of questions, drawn by a fixed seed from markets that settled as yes or no; it never changes. Each forecaster states a "
        "probability of yes from the text of the question. Models and baselines, such as the market price, are scored alike. The main score is the Brier "
        "score, the mean squared distance between probability and outcome: 0 is perfect, 0.25 is always 0.5. The gain over the price compares it with "
        "the price at the time of the forecast; above 0 is better than the market.",
        "A model that has read the answer cannot forecast it. Questions settled before the end of a model's training data, as its provider states it, "
        "count for no score and are listed as known outcomes. Coverage is the share of questions with a forecast that counts. A forecaster with low "
        "coverage has no rank, because omitted questions are rarely a random sample.",
    ),
    "Trading: can a forecast be traded?": (
        "An episode is the recording of the order books and trades of one event. An agent sees only what was public at each moment, its orders arrive "
        "after a delay, and they trade against the recorded book under the fees of the venue. An order that rests waits behind the contracts displayed "
        "before it. A recording shows the size of a price level, not its orders, so the whole run is repeated in sampled queue histories that the "
        "recording allows: their median and range show how much the profit depends on the queue, but they are no bounds.",
    ),
    "Arena: do models win money over the weeks?": (
        "Each Sunday a cohort of agents starts with equal paper money and a list of open markets, the universe. Every week an agent sees prices and its "
        "portfolio and answers with bets, sales or nothing. Bets execute at the quotes of that moment, and positions are valued at market prices until "
        "the venue resolves the market. A family is one competitor over the years, such as a line of models with its newest model.",
        "A methodology is a set of rules for prompts, bets and settlement; rankings never mix them. Live cohorts decided before the outcome existed. "
        "Reconstructed cohorts were run later with the prices of their time, and are ranked separately, as are models whose training data may contain "
        "the outcomes. The leading metrics are the difference between the Brier score and that of the price on the same bets, and the return.",
    ),
    "Uncertainty": (
        "Main numbers have 95 % intervals. Questions of one event or series resemble each other, so whole groups of them (clusters) are weighted at "
        "random (Bayesian bootstrap, with one more cluster at each end of what the data leave possible); below three clusters there is no interval. "
        "Comparisons are paired on common questions and corrected for their number after Holm. Forecasters that share a letter do not differ "
        "significantly, which is no proof that they are equal.",
    ),
    "What is not measured": (
        "Markets select the questions: they are about what people bet on, and say little about other subjects. All models get one prompt; a better one, "
        "or tools, may change the order. Market prices are strong but imperfect baselines, and thin markets are noisy. Paper money and replays leave "
        "out the reaction of other traders, so profits of large orders are too good. Outliers are drawn at the edge of bars and charts; tables have all "
        "values.",
        "Every number leads to its origin: a leaderboard to a forecaster and to the prompt and answer of each forecast, a ranking of the arena to an agent "
        "and its decisions. The page Data describes every table and offers the results for download.",
    ),
}


def pages(docs_url: str | None, code_url: str | None) -> Iterator[File]:
    """Yield the page on the method, and the one for unknown addresses. docs_url, code_url: addresses of documentation and source code."""
    sections = [Section(title, [Note(one) for one in paragraphs]) for title, paragraphs in _TEXT.items()]
    addresses = (("Documentation", docs_url), ("Source code", code_url), ("Data and downloads", "data/index.html"))
    sections.append(Section("Read on", [Links([Cell(title, href=address) for title, address in addresses if address])]))
    lead = "What the numbers of this site mean, how they are computed, and what they leave out."
    yield from render(Page("method.html", "Method", lead, sections))
    links = Links([Cell(title, href=path) for title, path in PARTS])
    lead = "This address has no page. A page may have moved with a newer publication; the areas of the site are:"
    yield from render(Page(NOT_FOUND, "Page not found", lead, [Section("", [links])]))
