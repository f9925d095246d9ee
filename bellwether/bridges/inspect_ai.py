"""Bridge to Inspect AI: the task `bellwether/release` with our elicitation, parser and metrics, and logs of forecasts, written and read.

Inspect finds the task by the entry point `inspect_ai`. Logs are written and read by Inspect's Python interface, never as files. Requires the extra
`inspect`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    ResponseSchema,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema

from bellwether.calibration import evaluate
from bellwether.calibration.answers import Answers
from bellwether.errors import BellwetherError, ConfigError, ScoringError
from bellwether.files import atomic_folder
from bellwether.forecasting.elicitation_run import forecast_instant, list_samples
from bellwether.forecasting.forecaster import forecast_rows
from bellwether.forecasting.language_model import LanguageModel
from bellwether.forecasting.parsing import Reading, read
from bellwether.forecasting.prompt import Elicitation, messages, prompt_hash, repair, response_format
from bellwether.lake import Lake
from bellwether.models.model import Model
from bellwether.models.response import Ending, parse_ending
from bellwether.questions.versions import load_fixed
from bellwether.registry import Entry
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.scoring.table import ForecastTable

#: Samples of one log: Inspect's time to write a log grows with the square of its samples.
SAMPLES_PER_LOG = 1_000

#: Metrics with an interval.
_INTERVALS = ("brier", "brier_skill", "skill_vs_market", "log_loss")
_OUTCOMES = {"yes": 1.0, "1": 1.0, "true": 1.0, "no": 0.0, "0": 0.0, "false": 0.0}
#: A whole answer that is a probability; models of other tasks give it without a form.
_BARE = re.compile(r"0?\.\d+|[01](?:\.0*)?")
_STOPS = {Ending.NORMAL: "stop", Ending.CUT: "max_tokens", Ending.FILTERED: "content_filter"}
#: Columns of a question in its prompt.
_PROMPTED = ("question", "description", "source", "market_id")
_SCORER, _TASK = "bellwether/forecast", "bellwether/release"


@task
def release(
    release: str,
    *,
    elicitation: Elicitation = "tags",
    horizon: str = "24h",
    samples: int = 1,
    combine: str = "mean",
    knowledge_cutoff: str | date | None = None,
) -> Task:
    """Task with the questions of a release of this home.

    Args:
        release: name of the release.
        elicitation: "tags" or "json".
        horizon: how long before the close the forecast is dated: 1h, 6h, 24h, 7d or open.
        samples: answers per question (epochs). combine: their combination, "mean" or "median".
        knowledge_cutoff: last day of the model's training data; questions whose outcome it could know do not count.

    Raises `ConfigError` for a release that was not built and an invalid argument.
    """
    cutoff = None if knowledge_cutoff is None else date.fromisoformat(str(knowledge_cutoff))
    fields = {"model": "inspect/model", "elicitation": elicitation, "horizon": horizon, "samples": samples, "combine": combine}
    model = Entry("inspect eval -T", release, fields | {"knowledge_cutoff": cutoff}).parse(Model)
    questions = load_fixed(Lake.of(settings()), release)
    if questions is None:
        raise ConfigError(f"inspect eval: the release {release!r} was not built; build it: bellwether release {release}")
    prompts = {sample.question["id"]: sample.prompt for sample in list_samples(model, questions) if sample.prompt}
    sheet = _unanswered_sheet(LanguageModel(model), questions)
    dataset = [
        Sample(input=_messages(prompts[row["id"]]), id=row["id"], target=row["ground_truth"], metadata=_metadata(row))
        for row in sheet.iter_rows(named=True)
        if row["id"] in prompts
    ]
    return Task(
        dataset=MemoryDataset(dataset, name=release),
        solver=elicit(elicitation),
        scorer=forecast(),
        epochs=Epochs(samples, combine),
        metadata={"release": release, "rules": LanguageModel(model).version},
    )


@solver
def elicit(elicitation: Elicitation = "tags") -> Solver:
    """Solver that asks for a forecast and, after an unreadable answer, once for the answer in the right form. elicitation: "tags" or "json"."""
    form = response_format(elicitation)
    schema = None
    if form is not None:
        declared = form["json_schema"]
        schema = ResponseSchema(name=declared["name"], json_schema=JSONSchema.model_validate(declared["schema"]), strict=declared["strict"])
    config = GenerateConfig(response_schema=schema).model_dump(exclude_none=True)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        prompt = [{"role": message.role, "content": message.text} for message in state.messages]
        state = await generate(state, **config)
        reading = _read(state.output)
        if reading.problem is not None:
            state.messages = _messages(repair(prompt, state.output.completion, reading, elicitation))
            state = await generate(state, **config)
        return state

    return solve


@metric
def scores() -> Metric:
    """Metric with our numbers over all questions: scores with 95 % intervals over clusters, the calibration error with its test, and counts.

    The sample's metadata have the cluster (without one, each question is its own), the market's price at the time of the forecast, and `could_know`
    for questions that do not count.
    """

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = sorted(({**(score.sample_metadata or {}), **_value(score)} for score in scores), key=lambda row: row.get("ordinal", 0))
        counted = [row for row in rows if not row.get("could_know") and not math.isnan(row["p_yes"])]
        result = evaluate(
            [row["p_yes"] for row in counted],
            [row["outcome"] for row in counted],
            [row.get("cluster", row["id"]) for row in counted],
            market=[math.nan if row.get("market") is None else row["market"] for row in counted],
            asked=len(rows),
        )
        values: dict[str, float | None] = {}
        for name in _INTERVALS:
            estimate = result[name]
            values |= {name: estimate.value, f"{name}_lower": estimate.lower, f"{name}_upper": estimate.upper}
        ece = result["ece"]
        values |= {"ece": ece.value, "ece_expected": ece.expected, "ece_p_calibrated": ece.p_calibrated}
        values |= {"coverage": result["coverage"].value, "n": result.n, "n_clusters": result.n_clusters}
        return {name: value for name, value in values.items() if value is not None}

    return compute


def _value(score: SampleScore) -> dict[str, Any]:
    return {"id": str(score.sample_id), **score.score.as_dict()}


@scorer(metrics=[scores()])
def forecast() -> Scorer:
    """Scorer that reads the probability of yes from the answer: value `p_yes` (NaN without one), `outcome`, and their squared difference."""

    async def score(state: TaskState, target: Target) -> Score:
        return _score(_read(state.output), target.text)

    return score


def _score(reading: Reading, target: str) -> Score:
    """Score one answer. target: yes or no, 1 or 0. Raises `ScoringError` for another target."""
    outcome = _OUTCOMES.get(target.strip().lower())
    if outcome is None:
        raise ScoringError(f"scoring: the target is {target!r}; give yes or no, 1 or 0")
    p = math.nan if reading.p_yes is None else reading.p_yes
    return Score(
        value={"p_yes": p, "outcome": outcome, "squared_error": (p - outcome) ** 2},
        answer=reading.answer,
        explanation=reading.problem or reading.contradiction,
        metadata={"parsed_by": reading.path},
    )


def _read(output: ModelOutput) -> Reading:
    """Parse the answer of a sample. An answer that is only a number from 0 to 1 is the probability of yes."""
    text = output.completion
    reading = read(text, ended=bool(output.choices) and parse_ending(output.stop_reason) is Ending.NORMAL)
    if reading.problem is not None and _BARE.fullmatch(text.strip()):
        p = float(text)
        return Reading("yes" if p >= 0.5 else "no", max(p, 1 - p), p, "none")
    return reading


def _messages(prompt: Sequence[dict[str, str]]) -> list[ChatMessage]:
    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    return [kinds[message["role"]](content=message["content"]) for message in prompt]


def _unanswered_sheet(forecaster: LanguageModel, questions: pl.DataFrame) -> pl.DataFrame:
    """Return the sheet of a language model that has not answered yet: with dates, prices and known outcomes."""
    as_of = forecast_instant(forecaster.model.horizon)
    rows = forecast_rows(forecaster, questions, p_yes=pl.lit(None, pl.Float64), as_of=as_of, error=pl.lit("not asked yet"))
    return _sheet(rows, questions, forecaster.name)


def _sheet(forecasts: pl.DataFrame, questions: pl.DataFrame, forecaster: str) -> pl.DataFrame:
    """Return one row per question with the columns of `Answers.sheet`, and the question's own cluster, outcome and text."""
    sheet = Answers.of(forecasts, questions).sheet(forecaster).drop("cluster")
    return sheet.join(questions.select("id", "cluster", "ground_truth", "release", *_PROMPTED), on="id", maintain_order="left")


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    as_of = None if row["as_of"] is None else row["as_of"].isoformat()
    return {"as_of": as_of} | {name: row[name] for name in ("release", "ordinal", "category", "cluster", "market", "could_know")}


def write_logs(questions: pl.DataFrame, forecasts: pl.DataFrame, folder: Path) -> list[Path]:
    """Write the forecasts of a release as Inspect logs, `SAMPLES_PER_LOG` samples each, `FORECASTER-NUMBER.eval`. Returns their paths.

    questions, forecasts: rows of the benchmark tables, of one release. An earlier export in `folder` is replaced as a whole.
    Raises `ConfigError` for a folder with other contents, and `BellwetherError` if a stored answer gives another probability than the stored one.
    """
    if folder.exists() and not (folder.is_dir() and all(path.suffix == ".eval" for path in folder.iterdir())):
        raise ConfigError(f"exporting to {folder}: it contains something other than logs; name another folder")
    names = []
    with atomic_folder(folder, "") as draft:
        for name in sorted(forecasts["forecaster"].unique()):
            own = forecasts.filter(forecaster=name)
            for number, part in enumerate(_parts(questions, own, name), 1):
                names.append(f"{name}-{number:03}.eval")
                write_eval_log(_build_log(part, own, name), draft / names[-1], format="eval")
    return [folder / name for name in names]


def _parts(questions: pl.DataFrame, forecasts: pl.DataFrame, forecaster: str) -> Iterator[pl.DataFrame]:
    """Return the rows of the sheet of each log of one forecaster; all samples of a question are in one log."""
    sheet = _sheet(forecasts, questions, forecaster).filter(pl.col("id").is_in(forecasts["question_id"].implode()))
    return sheet.iter_slices(max(1, SAMPLES_PER_LOG // _count_epochs(forecasts)))


def _count_epochs(forecasts: pl.DataFrame) -> int:
    return int(forecasts["question_id"].value_counts()["count"].max())  # type: ignore[arg-type]


def _build_log(part: pl.DataFrame, forecasts: pl.DataFrame, forecaster: str) -> EvalLog:
    """Build a log of one forecaster. part: its rows of the sheet."""
    combine = str(forecasts["combine"].drop_nulls().first() or "mean")
    rows = {row["id"]: row for row in part.iter_rows(named=True)}
    answers = forecasts.join(part.select("ordinal", question_id="id"), on="question_id").sort("ordinal", "sample")
    samples = [_log_sample(rows[answer["question_id"]], answer) for answer in answers.iter_rows(named=True)]
    spec = EvalSpec.model_validate(
        {
            "created": max(forecasts["known_at"]).isoformat(),
            "task": _TASK,
            "task_id": f"{forecaster}-{part['ordinal'][0]}",
            "task_registry_name": _TASK,
            "task_args": {"release": part["release"][0]},
            "dataset": EvalDataset(name=part["release"][0], samples=len(rows), sample_ids=list(rows)),
            "model": f"none/{forecaster}",
            "config": EvalConfig(epochs=_count_epochs(forecasts), epochs_reducer=[combine]),
            "scorers": [{"name": _SCORER, "metrics": [{"name": "bellwether/scores"}]}],
        }
    )
    return EvalLog(status="success", eval=spec, results=_results(samples, combine), stats=EvalStats(), samples=samples)


def _log_sample(row: dict[str, Any], answer: dict[str, Any]) -> EvalSample:
    """Build the sample of one row of benchmark/forecasts; of a baseline, the answer is its probability as JSON. row: of the sheet."""
    text = answer["raw_response"] or ("" if answer["p_yes"] is None else f'{{"p_yes": {answer["p_yes"]!r}}}')
    ending = Ending.NORMAL if answer["raw_response"] is None else parse_ending(answer["finish_reason"])
    message = ChatMessageAssistant(content=text, model=answer["served_model"] or answer["model"])
    used = [answer[name] or 0 for name in ("input_tokens", "output_tokens")]
    usage = ModelUsage(input_tokens=used[0], output_tokens=used[1], total_tokens=sum(used), reasoning_tokens=answer["reasoning_tokens"])
    choice = ChatCompletionChoice(message=message, stop_reason=_STOPS.get(ending, "unknown"))
    output = ModelOutput(model=message.model or answer["forecaster"], choices=[choice], usage=usage if sum(used) else None)
    reading = _read(output)
    if reading.p_yes != answer["p_yes"]:
        raise BellwetherError(
            f"exporting {answer['forecaster']}: the answer to {row['id']} reads as p_yes = {reading.p_yes}, and {answer['p_yes']} is stored; "
            "evaluate the forecaster again with this version"
        )
    prompt = _prompt(row, answer)
    return EvalSample(
        id=row["id"],
        epoch=answer["sample"] + 1,
        input=prompt,
        target=row["ground_truth"],
        messages=[*prompt, message],
        output=output,
        scores={"forecast": _score(reading, row["ground_truth"])},
        metadata=_metadata(row) | {"failure": answer["error"]},
        total_time=answer["latency"],
    )


def _prompt(row: dict[str, Any], answer: dict[str, Any]) -> list[ChatMessage]:
    """Return the prompt of an answer: the messages if they are those that were sent, else the question alone."""
    if answer["elicitation"] is not None and answer["as_of"] is not None:
        sent = messages(row, answer["as_of"], answer["elicitation"].partition("/")[0])
        if prompt_hash(sent) == answer["prompt_hash"]:
            return _messages(sent)
    return [ChatMessageUser(content=row["question"])]


def _results(samples: Sequence[EvalSample], combine: str) -> EvalResults:
    """Compute the results of a log."""
    grouped: dict[int | str, list[EvalSample]] = {}
    for sample in samples:
        grouped.setdefault(sample.id, []).append(sample)
    reduced = [_combine(members, combine) for members in grouped.values()]
    values = scores()(reduced)  # type: ignore[arg-type]
    metrics = {name: EvalMetric(name=name, group="scores", value=value) for name, value in values.items()}  # type: ignore[union-attr]
    score = EvalScore(name="forecast", scorer=_SCORER, reducer=combine, scored_samples=len(reduced), metrics=metrics)
    return EvalResults(total_samples=len(samples), completed_samples=len(samples), scores=[score])


def _combine(samples: Sequence[EvalSample], combine: str) -> SampleScore:
    """Combine the samples of one question."""
    values: list[dict[str, Any]] = [score.as_dict() for sample in samples for score in (sample.scores or {}).values()]
    p = _combine_values([value["p_yes"] for value in values], combine)
    value = {"p_yes": math.nan if p is None else p, "outcome": values[0]["outcome"]}
    return SampleScore(score=Score(value=value), sample_id=samples[0].id, sample_metadata=samples[0].metadata)


def _combine_values(values: Sequence[float], combine: str) -> float | None:
    """Return the mean or median of the values that are numbers; None without any."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return None
    return statistics.median(known) if combine == "median" else statistics.fmean(known)


@dataclass(frozen=True, slots=True, eq=False)
class LogForecasts:
    """Forecasts of Inspect logs, one row per question.

    table: columns of `bellwether score` and `bellwether submit`: forecaster, question_id, probability, outcome and, if the samples have them, stated_at,
        cluster and market_price.
    left_out: samples without a forecast that counts, each with its place and the reason.
    """

    table: ForecastTable
    left_out: tuple[str, ...]


def read_logs(path: Path, forecaster: str | None = None) -> LogForecasts:
    """Read the forecasts of an Inspect log (.eval or .json), or of all logs in a folder. Answers are read as by the scorer `bellwether/forecast`.

    forecaster: name of the forecaster; by default the model's, without its provider.
    Raises `ScoringError` with file, sample and field for files that are no logs, evaluations that did not finish, unknown combinations of epochs,
    repeated samples and invalid targets.
    """
    from bellwether.scoring.table import ForecastTable

    files = sorted(file for file in path.iterdir() if file.suffix in {".eval", ".json"}) if path.is_dir() else [path]
    if not files:
        raise ScoringError(f"{path}: the folder has no logs (.eval or .json); correct the path")
    rows: list[dict[str, str | None]] = []
    places: list[str] = []
    left_out: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for file in files:
        log = _read_log(file)
        name = forecaster or log.eval.model.rpartition("/")[2].lower()
        for members in _group(file, log):
            place = f"{file.name}, sample {members[0].id!r}"
            key = (name, str(members[0].id))
            if key in seen:
                raise ScoringError(f"{place}: {seen[key]} has a forecast of {name} for it, too; import one of the logs")
            seen[key] = file.name
            row, reason = _forecast_row(members, log.eval.config.epochs_reducer, place)
            if reason is not None:
                left_out.append(f"{place}: {reason}")
                continue
            rows.append({"forecaster": name, **row})
            places.append(place)
    names = ("forecaster", "question_id", "probability", "stated_at", "outcome", "cluster", "market_price")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))
    given = frame.select(column for column in frame if column.null_count() < frame.height)
    return LogForecasts(ForecastTable(str(path), given, places.__getitem__), tuple(left_out))


def _read_log(file: Path) -> EvalLog:
    try:
        log = read_eval_log(file, resolve_attachments="core")
    except FileNotFoundError:
        raise ScoringError(f"{file}: there is no such file; correct the path") from None
    except Exception as error:  # Inspect raises errors of zip, JSON and Pydantic
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ScoringError(f"{file}: it is no log that this version of Inspect AI can read ({reason}); give a .eval or .json log") from None
    if log.status != "success":
        raise ScoringError(f"{file}: field status is {log.status!r}; finish the evaluation: inspect eval-retry {file}")
    return log


def _group(file: Path, log: EvalLog) -> list[list[EvalSample]]:
    """Group the samples of a log by question, in its order. Raises `ScoringError` for a repeated sample."""
    grouped: dict[str, dict[int, EvalSample]] = {}
    for sample in log.samples or ():
        epochs = grouped.setdefault(str(sample.id), {})
        if sample.epoch in epochs:
            raise ScoringError(f"{file}: sample {sample.id!r}: epoch {sample.epoch} occurs twice; remove the copy")
        epochs[sample.epoch] = sample
    return [list(epochs.values()) for epochs in grouped.values()]


def _forecast_row(samples: Sequence[EvalSample], reducers: list[str] | None, place: str) -> tuple[dict[str, str | None], str | None]:
    """Return the row of one question, and the reason if it has no forecast that counts."""
    if (reducers or ["mean"]) not in (["mean"], ["median"]):
        raise ScoringError(f"{place}: field epochs_reducer is {reducers}; combine the epochs by mean or median")
    first, readings = samples[0], [_read(sample.output) for sample in samples]
    target = first.target if isinstance(first.target, str) else " ".join(first.target)
    if target.strip().lower() not in _OUTCOMES:
        raise ScoringError(f"{place}: field target is {target!r}; give yes or no, 1 or 0")
    p = _combine_values([math.nan if reading.p_yes is None else reading.p_yes for reading in readings], (reducers or ["mean"])[0])
    row: dict[str, Any] = {"question_id": str(first.id), "stated_at": first.metadata.get("as_of"), "outcome": target}
    row |= {"cluster": first.metadata.get("cluster"), "market_price": first.metadata.get("market")}
    if first.metadata.get("could_know"):
        return row, "the model could know the outcome"
    if p is None:
        return row, f"no forecast: {first.error.message if first.error else readings[0].problem}"
    row["probability"] = p
    return {name: None if value is None else str(value) for name, value in row.items()}, None
