"""Records as JSON: the contract that other programs rely on, versioned in `schema`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from batchstat import __version__
from batchstat.gate import Check, Outcome, worst
from batchstat.profiling.record import CorpusFacts, Profile, TokenizerFacts
from batchstat.profiling.store import SCHEMA as PROFILE_SCHEMA
from batchstat.report import Comparison, Simulation, StrategyResult, Sweep

COMPARE_SCHEMA = "batchstat.compare/1"
CHECK_SCHEMA = "batchstat.check/1"


def profile_json(profile: Profile) -> dict[str, Any]:
    """profile.json."""
    stats = profile.stats
    return {
        **_head(PROFILE_SCHEMA, profile.created),
        "corpus": _corpus(profile.corpus, len(profile)),
        "tokenizer": _tokenizer(profile.tokenizer),
        "lengths": {
            "count": stats.count,
            "sum": stats.sum,
            "min": stats.min,
            "max": stats.max,
            "mean": stats.mean,
            "std": stats.std,
            "p50": stats.percentile(500),
            "p90": stats.percentile(900),
            "p95": stats.percentile(950),
            "p99": stats.percentile(990),
            "p99_9": stats.percentile(999),
            "histogram": asdict(profile.histogram),
        },
        "truncation": [asdict(candidate) for candidate in profile.truncation],
        "classes": [
            {
                "label": each.label,
                "count": each.count,
                "share": each.share,
                "mean_length": each.mean_length,
            }
            for each in profile.classes
        ],
        "class_ratio": profile.class_ratio,
    }


def report_json(profile: Profile, simulation: Simulation) -> dict[str, Any]:
    """The numbers of one strategy on one corpus: what limits are held against."""
    of_corpus = ("corpus", "tokenizer", "lengths", "truncation", "classes", "class_ratio")
    found = profile_json(profile)
    return {**{key: found[key] for key in of_corpus}, **simulation_json(simulation)}


def simulation_json(simulation: Simulation) -> dict[str, Any]:
    """That part of `report_json` which depends on the strategy and its settings."""
    return {"basis": asdict(simulation.basis), "strategy": _strategy(simulation.row)}


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """compare.json."""
    return {
        **_head(COMPARE_SCHEMA, comparison.created),
        "corpus": _corpus(comparison.corpus, comparison.samples),
        "tokenizer": _tokenizer(comparison.tokenizer),
        "basis": asdict(comparison.basis),
        "strategies": [_strategy(row) for row in comparison.strategies],
        "sweep": _sweep(comparison.sweep),
        "recommendation": {
            "strategy": comparison.sweep.recommended_spec,
            "read_ahead": comparison.sweep.recommended.read_ahead,
            "padding_ratio": comparison.sweep.recommended.padding_ratio,
        },
        "warnings": [asdict(warning) for warning in comparison.warnings],
    }


def to_text(record: dict[str, Any]) -> str:
    """The JSON text of a file, and of `--json`."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def check_json(checks: Sequence[Check], created: str) -> dict[str, Any]:
    """check.json."""
    return {
        **_head(CHECK_SCHEMA, created),
        "status": worst(checks),
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "error": check.error,
                "strategy": check.strategy,
                "report": check.report,
                "limits": [_outcome(outcome) for outcome in check.outcomes],
                "warnings": list(check.warnings),
            }
            for check in checks
        ],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    limit = outcome.limit
    return {
        "name": limit.name,
        "path": limit.path,
        "bound": limit.bound,
        "limit": limit.threshold,
        "value": outcome.value,
        "before": outcome.before,
        "over": outcome.over,
        "level": limit.level,
        "status": outcome.status,
        "set_in": limit.origin,
        "remedy": None if outcome.remedy is None else asdict(outcome.remedy),
    }


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of `profile.json`, `compare.json` or `check.json`, by the word before the
    dot, with what it refers to in others put in its place.
    """
    text = files(__package__).joinpath("schemas", f"{name}.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = _inlined(json.loads(text))
    return loaded


def report_schema() -> dict[str, Any]:
    """The JSON Schema of `report_json`."""
    check = schema("check")["properties"]["checks"]["items"]
    found: dict[str, Any] = check["properties"]["report"]["anyOf"][0]
    return found


def _inlined(part: Any) -> Any:
    if isinstance(part, list):
        return [_inlined(each) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" not in part:
        return {key: _inlined(value) for key, value in part.items()}
    file, _, path = part["$ref"].partition("#/")
    found = schema(file.removesuffix(".schema.json"))
    for key in path.split("/"):
        found = found[key]
    return found


def _head(schema: str, created: str) -> dict[str, Any]:
    return {
        "schema": schema,
        "tool": {"name": "batchstat", "version": __version__},
        "created": created,
    }


def _corpus(corpus: CorpusFacts | None, samples: int) -> dict[str, Any]:
    if corpus is None:
        return {
            "sources": [],
            "samples": samples,
            "skipped": {},
            "unreadable": 0,
            "faults": [],
            "options": None,
        }
    return {
        "sources": [asdict(source) for source in corpus.sources],
        "samples": samples,
        "skipped": dict(corpus.skipped),
        "unreadable": corpus.unreadable,
        "faults": list(corpus.faults),
        "options": asdict(corpus.options),
    }


def _tokenizer(tokenizer: TokenizerFacts | None) -> dict[str, Any] | None:
    return None if tokenizer is None else asdict(tokenizer)


def _strategy(row: StrategyResult) -> dict[str, Any]:
    counts = row.counts
    return {
        "name": row.name,
        "params": row.params,
        "samples": counts.samples,
        "rows": counts.rows,
        "batches": counts.batches,
        "steps": counts.steps,
        "real_tokens": counts.real_tokens,
        "padding_tokens": counts.padding_tokens,
        "total_tokens": counts.total_tokens,
        "padding_ratio": counts.padding_ratio,
        "fill": counts.fill,
        "max_batch_tokens": counts.max_batch_tokens,
        "over_budget_batches": counts.over_budget_batches,
        "distinct_shapes": counts.distinct_shapes,
        "truncated_samples": counts.truncated_samples,
        "truncated_tokens": counts.truncated_tokens,
        "truncated_ratio": counts.truncated_ratio,
        "dropped_samples": counts.dropped_samples,
        "dropped_tokens": counts.dropped_tokens,
        "dropped_ratio": counts.dropped_ratio,
        "duplicated_samples": counts.duplicated_samples,
        "samples_per_batch": {
            "min": counts.min_samples_per_batch,
            "mean": counts.mean_samples_per_batch,
            "max": counts.max_samples_per_batch,
        },
        "widths": asdict(row.widths),
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    return {
        "strategy": sweep.spec,
        "points": [
            {**asdict(point), "padding_ratio": point.padding_ratio} for point in sweep.points
        ],
    }
