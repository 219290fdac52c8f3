"""Warnings about trained tokens that weigh different amounts, or that a batch has none of."""

from collections.abc import Iterator, Sequence

from batchstat.planning.settings import ResolvedSettings
from batchstat.simulation.results import ReportWarning, StrategyResult

_NOTICED = 0.1
"""How far the 5th or the 95th percentile of weights is from 1 where that matters."""

_MEANS = ("mean-per-batch", "axolotl")
"""Losses that are a mean over the tokens of each batch."""

_REMEDIES = {
    "mean-per-batch": "multiply each batch's mean loss by batch.token_weight",
    "num-items-per-rank": "set average_tokens_across_devices=True",
    "axolotl": "axolotl takes no weights; --distribute balanced --balance-by trained evens out the "
    "ranks",
    "sequence-mean": "use a mean over tokens, and multiply it by batch.token_weight",
}
"""By the losses that weigh tokens differently."""


def weight_warnings(
    rows: Sequence[StrategyResult], basis: ResolvedSettings
) -> Iterator[ReportWarning]:
    """Yield a warning about rows in which weights differ, and one about batches without a trained
    token.
    """
    remedy = _REMEDIES.get(basis.loss or "")
    if remedy is None:
        return
    apart = [
        f"{row.label} {weights.p5:.2f} to {weights.p95:.2f}"
        for row in rows
        if row.trained is not None
        and (weights := row.trained.weights) is not None
        and max(1 - weights.p5, weights.p95 - 1) >= _NOTICED
    ]
    if apart:
        yield ReportWarning(
            "token_weights",
            f"with loss={basis.loss}, trained tokens of a step have different weights (5th to 95th "
            f"percentile, 1 is exact): {', '.join(apart)}: {remedy}",
        )
    without = [
        f"{row.label} {row.trained.untrained_batches:,} of {row.counts.batches:,}"
        for row in rows
        if row.trained is not None and row.trained.untrained_batches
    ]
    if without and basis.loss in _MEANS:
        yield ReportWarning(
            "untrained_batches",
            f"batches without a trained token, whose mean loss is 0/0 (NaN): {', '.join(without)}: "
            "take 0 as the loss where batch.trained_tokens is 0, or remove samples without trained "
            "tokens",
        )
