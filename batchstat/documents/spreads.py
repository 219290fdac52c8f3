"""How far numbers may be from those of a row: over several seeds, or of the whole corpus."""

from collections.abc import Sequence
from statistics import mean, pstdev
from typing import Annotated

from batchstat.parameters import described
from batchstat.records import Amount, Positive, Ratio, Record, allowed, told, told_of, untold


@described("Where the padding ratio of the whole corpus lies, by an estimate.")
class Interval(Record):
    low: Ratio = told("Padding ratio of the whole corpus, at least, by an estimate.")
    high: Ratio = told("Padding ratio of the whole corpus, at most, by an estimate.")

    @property
    def margin(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


@described("How much of the corpus all numbers are of, where they are an estimate.")
class SampleFacts(Record):
    samples: Positive = told("Samples that were drawn.")
    corpus_samples: Positive = told("Samples of the whole corpus.")
    blocks: Positive = told("Blocks of consecutive samples that were drawn.")
    block_size: Positive = told("Samples per block.")
    groups: Annotated[int, allowed(minimum=2)] = told(
        "Groups of blocks, simulated apart to tell how far the estimate may be off."
    )
    confidence: Ratio = told("Probability that an interval holds the number of the whole corpus.")

    @property
    @told_of("Samples that were drawn / samples of the whole corpus.")
    def share(self) -> Ratio:
        return self.samples / self.corpus_samples


@described("The padding ratio over several seeds.")
class PaddingSpread(Record):
    ratios: tuple[float, ...] = untold()  # (n_seeds,) the padding ratio with each seed
    mean: Amount = told("Mean over the seeds.")
    std: Amount = told("Standard deviation of the population.")
    min: Amount = told("The lowest of all seeds.")
    max: Amount = told("The highest of all seeds.")


@described("The number of batches over several seeds.")
class BatchSpread(Record):
    min: Positive
    max: Positive


@described("Mean, standard deviation and extremes over --seeds.")
class SeedSpread(Record):
    padding_ratio: PaddingSpread
    batches: BatchSpread

    @classmethod
    def of(cls, padding_ratios: Sequence[float], batches: Sequence[int]) -> "SeedSpread":
        """Return the spread of a row over (n_seeds,) padding ratios and numbers of batches."""
        ratios = tuple(padding_ratios)
        padding = PaddingSpread(ratios, mean(ratios), pstdev(ratios), min(ratios), max(ratios))
        return cls(padding, BatchSpread(min(batches), max(batches)))
