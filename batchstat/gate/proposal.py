"""Limits that keep a corpus as it is, with a margin: what `batchstat init` writes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Limits = Sequence[tuple[str, str, str]]
"""The name of each limit, its value as TOML, and the measured value in words."""


def propose_limits(
    report: Mapping[str, Any], *, may_drop: bool = False, has_budget: bool = True
) -> Limits:
    """Return limits that the measured values keep with a margin.

    The margin is half a percentage point for padding, truncated and dropped tokens; five points for
    fill; a tenth for the number of samples and for both ratios; none for batches over budget.
    """
    numbers, basis = report["strategy"], report["basis"]
    limits = [_limit_above("max-padding", numbers["padding_ratio"])]
    if has_budget:  # fill is a share of the budget
        percent = min(max(math.floor(100 * numbers["fill"] - 5), 0), 100)
        limits.append(("min-fill", f'"{percent}%"', _measured(numbers["fill"])))
    limits.append(_limit_above("max-truncated", numbers["truncated_ratio"]))
    # Only in these cases can samples be dropped.
    if may_drop or basis["overflow"] == "drop" or basis["drop_last"]:
        limits.append(_limit_above("max-dropped", numbers["dropped_ratio"]))
    samples = report["corpus"]["samples"]
    limits.append(("min-samples", str(max(1, samples * 9 // 10)), f"measured {samples:,}"))
    over_budget = numbers["over_budget_batches"]
    if has_budget:
        limits.append(("max-over-budget", str(over_budget), f"measured {over_budget:,}"))
    trained = numbers["trained"]
    weights = trained and trained["token_weight"]  # either may be null
    if weights and weights["spread"] > 1:  # 1: all trained tokens weigh the same
        limits.append(("max-weight-spread", *_a_tenth_above(weights["spread"])))
    if (ratio := report["class_ratio"]) is not None:
        limits.append(("max-class-ratio", *_a_tenth_above(ratio)))
    return limits


def _limit_above(name: str, ratio: float) -> tuple[str, str, str]:
    tenths = min(math.ceil(1000 * ratio + 5), 1000)
    return name, f'"{tenths / 10:.1f}%"', _measured(ratio)


def _a_tenth_above(ratio: float) -> tuple[str, str]:
    return f"{math.ceil(ratio * 11) / 10:.1f}", f"measured {ratio:.2f}"


def _measured(ratio: float) -> str:
    return f"measured {100 * ratio:.2f}%"
