"""How far numbers may be from those of a row: over several seeds, or of the whole corpus."""

from typing import Any

from batchstat.documents.base import Amount, Document, Positive, Ratio


class Interval(Document):
    """Where the padding ratio of the whole corpus lies, by an estimate."""

    low: Ratio
    """Padding ratio of the whole corpus, at least, by an estimate."""
    high: Ratio
    """Padding ratio of the whole corpus, at most, by an estimate."""


class PaddingSpread(Document):
    """The padding ratio over several seeds."""

    mean: Amount
    std: Amount
    """Standard deviation of the population."""
    min: Amount
    max: Amount


class BatchSpread(Document):
    """The number of batches over several seeds."""

    min: Positive
    max: Positive


class Seeds(Document):
    """Mean, standard deviation and extremes over --seeds."""

    padding_ratio: PaddingSpread
    batches: BatchSpread


def seeds_of(spread: Any) -> dict[str, Any]:
    """Return the keys of `Seeds`."""
    return {
        "padding_ratio": {
            "mean": spread.padding_mean,
            "std": spread.padding_std,
            "min": min(spread.padding_ratios),
            "max": max(spread.padding_ratios),
        },
        "batches": {"min": min(spread.batches), "max": max(spread.batches)},
    }
