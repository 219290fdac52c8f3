"""compare.json, and the numbers of one strategy."""

from dataclasses import asdict, fields
from typing import Any

from batchstat.documents.common import corpus_json, head, tokenizer_json
from batchstat.documents.profile import profile_json
from batchstat.profiling.profile import Profile
from batchstat.simulation.bounds import Bounds
from batchstat.simulation.comparison import (
    Choice,
    Comparison,
    SeedSpread,
    Simulation,
    StrategyResult,
    Sweep,
)
from batchstat.simulation.cost_model import CostModel
from batchstat.simulation.coverage import Mixing

SCHEMA = "batchstat.compare/2"


def report_json(profile: Profile, simulation: Simulation) -> dict[str, Any]:
    """The numbers of one strategy on one corpus: what limits are held against."""
    of_corpus = ("corpus", "tokenizer", "lengths", "truncation", "classes", "class_ratio")
    found = profile_json(profile)
    return {**{key: found[key] for key in of_corpus}, **simulation_json(simulation)}


def simulation_json(simulation: Simulation) -> dict[str, Any]:
    """That part of `report_json` which depends on the strategy and its settings."""
    return {"basis": asdict(simulation.basis), "strategy": strategy_json(simulation.row)}


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """compare.json."""
    return {
        **head(SCHEMA, comparison.created),
        "corpus": corpus_json(comparison.corpus, comparison.samples),
        "tokenizer": tokenizer_json(comparison.tokenizer),
        "basis": asdict(comparison.basis),
        "model": None if comparison.model is None else asdict(comparison.model),
        "seeds": comparison.seeds,
        "sample": comparison.sample
        and {**asdict(comparison.sample), "share": comparison.sample.share},
        "strategies": [
            {**strategy_json(row, comparison.model), "speed_up": comparison.speed_up(row)}
            for row in comparison.strategies
        ],
        "choice": _choice(comparison.choice),
        "left_out": list(comparison.left_out),
        "bounds": _bounds(comparison.bounds),
        "sweep": _sweep(comparison.sweep),
        "warnings": [asdict(warning) for warning in comparison.warnings],
    }


def strategy_json(row: StrategyResult, model: CostModel | None = None) -> dict[str, Any]:
    """One strategy."""
    counts, reach = row.counts, row.counts.reach
    held = [each.samples for each in reach.ranks]
    return {
        "name": row.name,
        "label": row.label,
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
        "compute": counts.compute,
        "speed_up": None,
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
        "unique_samples": reach.unique_samples,
        "coverage": reach.coverage,
        "max_repeats": reach.max_repeats,
        "accuracy_bound": reach.accuracy_bound,
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
        "mixing": reach.mixing and _mixing(reach.mixing),
        "rank_idle": counts.rank_idle,
        "rank_idle_quadratic": counts.rank_idle_quadratic,
        "ranks": {
            "deal": row.deal,
            "tail": row.tail,
            "min_steps": counts.ranks.min_steps,
            "max_steps": counts.ranks.max_steps,
            "step_gap": counts.ranks.step_gap,
            "min_samples": min(held),
            "max_samples": max(held),
            "shared_samples": reach.shared_samples,
            "worst": asdict(counts.ranks.worst),
        },
        "seeds": row.seeds and _seeds(row.seeds),
        "interval": row.interval and asdict(row.interval),
        "widths": asdict(row.widths),
    }


def _choice(choice: Choice) -> dict[str, str | None]:
    rows = {field.name: getattr(choice, field.name) for field in fields(choice)}
    return {name: None if row is None else row.label for name, row in rows.items()}


def _mixing(mixing: Mixing) -> dict[str, Any]:
    return {
        "classes_per_batch": {
            "min": mixing.min_classes,
            "mean": mixing.mean_classes,
            "max": mixing.max_classes,
        },
        "single_class_batches": mixing.single_class_batches,
        "single_class_ratio": mixing.single_class_ratio,
        "class_separation": mixing.separation,
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
            "strategy": bounds.sorted_strategy,
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
        "recommended": sweep.recommended_spec,
    }
