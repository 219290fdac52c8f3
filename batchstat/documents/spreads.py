"""How far numbers may be from those of a row: over several seeds, or of the whole corpus."""

from typing import Any

from batchstat.documents.base import Amount, Document, Positive, Ratio
from batchstat.parameters import described


@described("Where the padding ratio of the whole corpus lies, by an estimate.")
class Interval(Document):
    low: Ratio
    """Padding ratio of the whole corpus, at least, by an estimate."""
    high: Ratio
    """Padding ratio of the whole corpus, at most, by an estimate."""


@described("The padding ratio over several seeds.")
class PaddingSpread(Document):
    mean: Amount
    std: Amount
    """Standard deviation of the population."""
    min: Amount
    max: Amount


@described("The number of batches over several seeds.")
class BatchSpread(Document):
    min: Positive
    max: Positive


@described("Mean, standard deviation and extremes over --seeds.")
class Seeds(Document):
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
