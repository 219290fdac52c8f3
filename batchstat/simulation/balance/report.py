"""`BalanceReport`: the results of `balance` per sampler, as counts with ratios as properties."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from batchstat.documents.balance import ClassDraw
from batchstat.findings import Finding
from batchstat.lengths.stats import LengthStats
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.spec import name_and_parameters
from batchstat.planning.settings import ResolvedSettings
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.simulation.device import Device
from batchstat.simulation.results import StrategyResult

if TYPE_CHECKING:
    import pandas as pd


BALANCED = 1.05  # a class ratio up to this counts as balanced
MOST_COMPUTE = 1.5  # a sampler that computes more than this times the tokens of `none` is expensive
# With many small classes, drawing all as often as the largest takes hundreds of epochs.
_MOST_EVER = 3.0  # a sampler that computes more than this times `none` is never recommended
LEAST_SEEN = 0.5  # a sampler that shows less of the corpus over all epochs is never recommended
AS_MUCH_SEEN = 0.01  # coverages that differ by at most this count as equal
_BY_CHANCE = 4  # standard deviations of a class's draws that count as chance


@dataclass(frozen=True, kw_only=True)
class SamplerResult:
    """One row of the table: a sampler, and the batches of the samples it draws."""

    spec: str  # as the user wrote it
    sampler: Sampler  # the parsed sampler
    corpus_samples: int  # samples of the corpus, including those without a class
    samples: int  # samples drawn for an epoch, repeats counted
    unique: int  # distinct samples among them
    max_repeats: int  # largest number of times any one sample is drawn
    lengths: LengthStats  # statistics of the drawn samples' lengths, before `max_length`
    classes: tuple[ClassDraw, ...]  # each class, in the order of its first sample
    seen: tuple[int, ...]  # distinct samples drawn up to each epoch
    ratios: tuple[float, ...]  # per epoch, draws of the largest class / of the smallest one drawn
    row: StrategyResult  # the strategy on the drawn samples
    unsampled: StrategyResult | None  # the same on all samples, as `none`; None without a batch

    @property
    def name(self) -> str:
        """The sampler's name, without parameters."""
        return name_and_parameters(self.spec)[0]

    @property
    def params(self) -> dict[str, Any]:
        """All parameters of the sampler."""
        return asdict(self.sampler)

    @property
    def relative_compute(self) -> float | None:
        """Compute of an epoch / that of `none`; None if that leaves no batch."""
        return None if self.unsampled is None else _compute(self.row) / _compute(self.unsampled)

    @property
    def is_balanced(self) -> bool:
        """Whether classes are drawn about equally: up to `BALANCED`, or as chance explains."""
        drawn_by_class = [draw.after for draw in self.classes]
        if min(drawn_by_class) == 0:
            return False
        # The last epoch that is tracked: dynamic sampling approaches balance epoch by epoch.
        if self.ratios[-1] <= BALANCED:
            return True
        if not self.sampler.draws_by_chance:
            return False
        # Random draws differ by about the square root of the mean, or more if drawn together.
        mean = sum(drawn_by_class) / len(drawn_by_class)
        allowed = _BY_CHANCE * math.sqrt(self.sampler.drawn_together * mean)
        return max(abs(drawn - mean) for drawn in drawn_by_class) <= allowed

    @property
    def unseen(self) -> int:
        """Samples of the corpus that the epoch does not draw."""
        return self.corpus_samples - self.unique

    @property
    def coverage(self) -> float:
        """Distinct samples drawn in an epoch / samples of the corpus."""
        return self.unique / self.corpus_samples

    @property
    def coverage_after(self) -> float:
        """Distinct samples drawn in all epochs / samples of the corpus."""
        return self.seen[-1] / self.corpus_samples

    @property
    def class_ratio(self) -> float:
        """Samples drawn of the largest class / of the smallest class that is drawn at all."""
        return self.ratios[0]


@dataclass(frozen=True, kw_only=True, repr=False)
class BalanceReport:
    """Samplers side by side on the same corpus."""

    created: str  # time of creation, ISO 8601 in UTC
    corpus: CorpusFacts | None  # facts about the corpus; None if lengths were given
    tokenizer: TokenizerFacts | None  # facts about the tokenizer; None if lengths were given
    basis: ResolvedSettings  # the settings that all rows share
    epochs: int  # number of epochs over which coverage is tracked
    unlabelled: int  # number of samples without a class
    multilabel: int  # number of samples with several labels; each counts as its rarest
    samplers: tuple[SamplerResult, ...]  # the rows, in the order requested
    warnings: tuple[Finding, ...]  # warnings about the results
    device: Device | None = None  # the calibrated device that trains; None without one

    def __repr__(self) -> str:
        """Return one line per sampler: what it draws."""
        lines = [
            f"{row.spec}: {row.samples:,} samples per epoch, {row.coverage:.1%} of the corpus, "
            f"class ratio {row.class_ratio:,.2f}"
            for row in self.samplers
        ]
        chosen = "none" if self.recommended is None else self.recommended.spec
        return "\n".join([*lines, f"recommended: {chosen}"])

    @property
    def samples(self) -> int:
        """Number of samples in the corpus."""
        return self.samplers[0].corpus_samples

    @property
    def class_ratio(self) -> float:
        """Samples of the largest class / samples of the smallest, in the corpus."""
        before = [draw.before for draw in self.samplers[0].classes]
        return max(before) / min(before)

    @property
    def balanced(self) -> list[SamplerResult]:
        """The samplers that balance all classes."""
        return [row for row in self.samplers if row.name != "none" and row.is_balanced]

    @property
    def recommended(self) -> SamplerResult | None:
        """The recommended sampler, among those that balance the classes, show at least half of the
        corpus over all epochs (`LEAST_SEEN`), and compute at most three times as much as `none`. Of
        those within 1.5 times the compute of `none` (`MOST_COMPUTE`), it is the one with the most
        coverage, and among about equal coverages the one with the least compute. If all compute
        more, the one with the least. None if no sampler qualifies, or only one is compared.
        """
        # None if `none` leaves no batch: no sampler is then left out for its compute.
        affordable = [r for r in self.balanced if (r.relative_compute or 0) <= _MOST_EVER]
        qualified = [row for row in affordable if row.coverage_after >= LEAST_SEEN]
        if len(self.samplers) < 2 or not qualified:
            return None
        candidates = [row for row in qualified if (row.relative_compute or 0) <= MOST_COMPUTE]
        if candidates:
            enough_seen = max(row.coverage_after for row in candidates) - AS_MUCH_SEEN
            candidates = [row for row in candidates if row.coverage_after >= enough_seen]
        return min(candidates or qualified, key=lambda row: _compute(row.row))

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per sampler and class, with the keys of balance.json."""
        from batchstat.documents.base import to_frame
        from batchstat.documents.parts import parts

        draws = [(row.spec, draw) for row in self.samplers for draw in row.classes]
        frame = to_frame(parts(ClassDraw).json(draw) for _, draw in draws)
        frame.insert(0, "sampler", [spec for spec, _ in draws])
        frame.insert(1, "label", [draw.label for _, draw in draws])
        return frame


def _compute(row: StrategyResult) -> float:
    seconds = row.on_device.seconds
    return row.counts.total_tokens if seconds is None else seconds
