"""Records as JSON: the contract that other programs rely on, versioned in `schema`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from batchstat import __version__
from batchstat.bounds import Bounds
from batchstat.buckets import BucketReport, Edges
from batchstat.costs import CostModel
from batchstat.gate import Check, Outcome, worst
from batchstat.profiling.record import CorpusFacts, Profile, TokenizerFacts
from batchstat.profiling.store import SCHEMA as PROFILE_SCHEMA
from batchstat.report import Comparison, SeedSpread, Simulation, StrategyResult, Sweep

COMPARE_SCHEMA = "batchstat.compare/1"
CHECK_SCHEMA = "batchstat.check/1"
BUCKETS_SCHEMA = "batchstat.buckets/1"


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
        "model": None if comparison.model is None else asdict(comparison.model),
        "seeds": comparison.seeds,
        "strategies": [_strategy(row, comparison.model) for row in comparison.strategies],
        "best": comparison.best.spec,
        "left_out": list(comparison.left_out),
        "bounds": _bounds(comparison.bounds),
        "sweep": _sweep(comparison.sweep),
        "recommendation": {
            "strategy": comparison.sweep.recommended_spec,
            "read_ahead": comparison.sweep.recommended.read_ahead,
            "padding_ratio": comparison.sweep.recommended.padding_ratio,
        },
        "warnings": [asdict(warning) for warning in comparison.warnings],
    }


def buckets_json(report: BucketReport) -> dict[str, Any]:
    """buckets.json."""
    return {
        **_head(BUCKETS_SCHEMA, report.created),
        "corpus": _corpus(report.corpus, report.samples),
        "tokenizer": _tokenizer(report.tokenizer),
        "basis": asdict(report.basis),
        "cost": report.cost,
        "model": None if report.model is None else asdict(report.model),
        "least": report.least,
        "strategy": report.spec,
        "buckets": [
            {
                **asdict(each),
                "padding_tokens": each.padding_tokens,
                "total_tokens": each.total_tokens,
            }
            for each in report.buckets
        ],
        "rules": [
            {"name": rule, "points": [_edges(each) for each in every]}
            for rule, every in report.found.items()
        ],
    }


def _edges(edges: Edges) -> dict[str, Any]:
    return {
        "buckets": edges.wanted,
        "edges": list(edges.edges),
        "real_tokens": edges.real_tokens,
        "total_tokens": edges.total_tokens,
        "padding_ratio": edges.padding_ratio,
        "relative_cost": edges.cost,
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


def _strategy(row: StrategyResult, model: CostModel | None = None) -> dict[str, Any]:
    counts = row.counts
    return {
        "name": row.name,
        "preset": row.preset,
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
        "packing_efficiency": counts.packing_efficiency,
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
        "duplicated_tokens": counts.duplicated_tokens,
        "duplicated_ratio": counts.duplicated_ratio,
        "samples_per_batch": {
            "min": counts.min_samples_per_batch,
            "mean": counts.mean_samples_per_batch,
            "max": counts.max_samples_per_batch,
        },
        "relative_cost": {
            "linear": counts.relative_cost(1, 0),
            "quadratic": counts.relative_cost(0, 1),
            "model": model and counts.relative_cost(model.linear, model.quadratic),
        },
        "grouping": asdict(counts.grouping),
        "rank_idle": counts.rank_idle,
        "rank_idle_quadratic": counts.rank_idle_quadratic,
        "ranks": {
            "min_steps": counts.ranks.min_steps,
            "max_steps": counts.ranks.max_steps,
            "step_gap": counts.ranks.step_gap,
            "worst": asdict(counts.ranks.worst),
        },
        "seeds": row.seeds and _seeds(row.seeds),
        "widths": asdict(row.widths),
    }


def _seeds(spread: SeedSpread) -> dict[str, Any]:
    return {
        "padding_ratio": {
            "mean": spread.padding_mean,
            "std": spread.padding_std,
            "min": min(spread.padding_ratios),
            "max": max(spread.padding_ratios),
        },
        "batches": {"min": min(spread.batches), "max": max(spread.batches)},
    }


def _bounds(bounds: Bounds) -> dict[str, Any]:
    return {
        "batches": bounds.batches,
        "packed_rows": bounds.packed_rows,
        "sorted": {
            "batches": bounds.sorted_batches,
            "padding_tokens": bounds.sorted_padding_tokens,
            "total_tokens": bounds.sorted_total_tokens,
            "padding_ratio": bounds.sorted_padding_ratio,
        },
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    return {
        "strategy": sweep.spec,
        "points": [
            {**asdict(point), "padding_ratio": point.padding_ratio} for point in sweep.points
        ],
    }
