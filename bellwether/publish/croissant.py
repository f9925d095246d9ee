"""Metadata of an exported release in JSON: Croissant (MLCommons) for the tables, and evaluation results of the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.publish.card import Part

CROISSANT = "croissant.json"
EVAL_RESULTS = ".eval_results"

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES: Mapping[pl.DataType, str] = {
    pl.String(): "sc:Text",
    pl.Float64(): "sc:Float",
    pl.Int32(): "sc:Integer",
    pl.Int64(): "sc:Integer",
    pl.Boolean(): "sc:Boolean",
    pl.Datetime("us", "UTC"): "sc:DateTime",
}
#: Licences of the Hub by the URL that Croissant recommends; of others the identifier is stated.
_LICENSES = {
    "mit": "https://spdx.org/licenses/MIT.html",
    "apache-2.0": "https://spdx.org/licenses/Apache-2.0.html",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
}
#: Metrics among the evaluation results of a forecaster.
_METRICS = ("brier", "brier_skill", "skill_vs_market", "ece")


def croissant(parts: Sequence[Part], folder: Path, *, citation: str, license_id: str, url: str) -> str:
    """Return the Croissant metadata of a dataset as JSON. parts: its tables, whose files are in `folder`. url: of the dataset's page."""
    questions = parts[0].rows.row(0, named=True)
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"bellwether-{questions['release']}",
        "description": f"Settled yes-or-no questions with their outcomes: the release {questions['release']} of Bellwether.",
        "license": _LICENSES.get(license_id, license_id),
        "citeAs": citation,
        "url": url,
        "version": f"{questions['version']}.0.0",
        "datePublished": f"{max(parts[0].rows['known_at']):%Y-%m-%d}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": f"{part.name}-file",
                "name": f"{part.name}-file",
                "contentUrl": part.file,
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256((folder / part.file).read_bytes()).hexdigest(),
            }
            for part in parts
        ],
        "recordSet": [_record_set(part) for part in parts],
    }
    return json.dumps(metadata, indent=2) + "\n"


def _record_set(part: Part) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{part.name}/{name}",
            "name": f"{part.name}/{name}",
            "description": part.columns[name],
            "dataType": _TYPES[dtype],
            "source": {"fileObject": {"@id": f"{part.name}-file"}, "extract": {"column": name}},
        }
        for name, dtype in part.rows.schema.items()
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": part.name,
        "name": part.name,
        "description": f"The {part.name} of the release.",
        "field": fields,
    }


def eval_results(scores: pl.DataFrame, dataset: str) -> dict[str, str]:
    """Return the Hub's evaluation results of each forecaster over all questions, by file name, as YAML in JSON's form.

    scores: rows of benchmark/scores. dataset: id of the dataset on the Hub, OWNER/NAME.
    """
    rows = scores.filter(pl.col("scope") == "all", pl.col("metric").is_in(_METRICS), pl.col("value").is_not_null())
    entries: dict[str, list[dict[str, Any]]] = {}
    for row in rows.sort("forecaster", "metric").iter_rows(named=True):
        interval = f"; 95 % interval {row['lower']:.6g} to {row['upper']:.6g}" if row["lower"] is not None else ""
        entries.setdefault(f"{row['forecaster']}.yaml", []).append(
            {
                "dataset": {"id": dataset, "task_id": row["metric"]},
                "value": row["value"],
                "date": f"{row['known_at']:%Y-%m-%dT%H:%M:%SZ}",
                "notes": f"{row['n']} of {row['n_questions']} questions in {row['n_clusters']} clusters{interval}",
            }
        )
    return {name: json.dumps(items, indent=2) + "\n" for name, items in entries.items()}
