"""`BalanceReport`: what `balance` finds out about samplers, as counts with ratios as properties."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchstat.lengths.stats import LengthStats
from batchstat.planning.settings import Basis
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.simulation.comparison import ReportWarning, StrategyResult

if TYPE_CHECKING:
    import pandas as pd

BALANCED = 1.05
"""A class ratio up to this is even."""
MOST_COMPUTE = 1.5
"""A sampler that computes more than so many times the tokens of none is expensive."""
AS_MUCH_SEEN = 0.01
"""Coverages this near to each other count as equal."""

_BY_CHANCE = 4
"""Standard deviations of a class's draws, within which it is no more than chance."""


@dataclass(frozen=True, kw_only=True)
class ClassDraw:
    """One class before and after a sampler.

    Attributes:
        label: the class.
        before: its samples in the corpus.
        after: its samples that an epoch draws, repeats counted.
        unique: different ones among them.
        max_repeats: how often the one is drawn that is most often.
        tokens_before: of all its samples in the corpus.
        tokens_after: of those drawn.
        seen: different ones drawn up to each epoch.
    """

    label: str
    before: int
    after: int
    unique: int
    max_repeats: int
    tokens_before: int
    tokens_after: int
    seen: tuple[int, ...]

    @property
    def coverage(self) -> float:
        """Different samples drawn in an epoch / samples of the class."""
        return self.unique / self.before

    @property
    def coverage_after(self) -> float:
        """The same over all epochs."""
        return self.seen[-1] / self.before

    @property
    def mean_length(self) -> float:
        """Tokens a sample of the class, in the corpus."""
        return self.tokens_before / self.before

    @property
    def mean_length_after(self) -> float | None:
        """The same of those drawn; None where none is."""
        return self.tokens_after / self.after if self.after else None

    def numbers(self) -> dict[str, Any]:
        """Its counts and ratios, by the names that frames and JSON have for them."""
        return {
            "label": self.label,
            "before": self.before,
            "after": self.after,
            "unique_samples": self.unique,
            "max_repeats": self.max_repeats,
            "coverage": self.coverage,
            "coverage_after": self.coverage_after,
            "mean_length": self.mean_length,
            "mean_length_after": self.mean_length_after,
        }


@dataclass(frozen=True, kw_only=True)
class SamplerResult:
    """One row of the table: a sampler, and the batches of what it draws.

    Attributes:
        name: the bare name.
        spec: as the user wrote it.
        params: all its parameters.
        corpus_samples: of the corpus, those without a class too.
        samples: drawn for an epoch, repeats counted.
        unique: different ones among them.
        max_repeats: how often the one is drawn that is most often.
        lengths: of those drawn, whole.
        classes: each class, in the order of its first sample.
        seen: different samples drawn up to each epoch.
        ratios: of each epoch, samples drawn of the largest class / of the smallest drawn at all.
        row: one strategy on what is drawn.
        natural_tokens: total tokens of the same strategy on all samples, as `none` draws them; None
            where that leaves no batch.
    """

    name: str
    spec: str
    params: dict[str, Any]
    corpus_samples: int
    samples: int
    unique: int
    max_repeats: int
    lengths: LengthStats
    classes: tuple[ClassDraw, ...]
    seen: tuple[int, ...]
    ratios: tuple[float, ...]
    row: StrategyResult
    natural_tokens: int | None

    @property
    def relative_compute(self) -> float | None:
        """Total tokens of an epoch / those of `none` under the same strategy; None where that
        leaves no batch.
        """
        if self.natural_tokens is None:
            return None
        return self.row.counts.total_tokens / self.natural_tokens

    @property
    def is_balanced(self) -> bool:
        """Whether it evens all classes out, in the last epoch that is followed."""
        drawn = [each.after for each in self.classes]
        if min(drawn) == 0:
            return False
        if self.ratios[-1] <= BALANCED:
            return True
        if self.name not in ("weighted-random", "per-batch"):
            return False
        # Each draw is of a random class, so that counts differ by chance.
        mean, together = sum(drawn) / len(drawn), int(self.params.get("samples", 1))
        chance = _BY_CHANCE * math.sqrt(together * mean)
        return max(abs(each - mean) for each in drawn) <= chance

    @property
    def unseen(self) -> int:
        """Samples of the corpus that the epoch does not draw."""
        return self.corpus_samples - self.unique

    @property
    def coverage(self) -> float:
        """Different samples drawn in an epoch / samples of the corpus."""
        return self.unique / self.corpus_samples

    @property
    def coverage_after(self) -> float:
        """The same over all epochs."""
        return self.seen[-1] / self.corpus_samples

    @property
    def class_ratio(self) -> float:
        """Samples drawn of the largest class / of the smallest that is drawn at all."""
        return self.ratios[0]

    def least_class_coverage(self, epoch: int) -> float:
        """The share of the class of which least has been drawn up to an epoch, counted from 0."""
        return min(each.seen[epoch] / each.before for each in self.classes)


@dataclass(frozen=True, kw_only=True)
class BalanceReport:
    """Samplers side by side on the same corpus.

    Attributes:
        created: ISO 8601 in UTC.
        corpus: None where lengths were given.
        tokenizer: None where lengths were given.
        basis: the settings that all rows share.
        epochs: over how many coverage is followed.
        unlabelled: samples of no class.
        multilabel: samples of several labels: each counts as the rarest.
        samplers: the rows, as asked for.
        warnings: what else to know.
    """

    created: str
    corpus: CorpusFacts | None
    tokenizer: TokenizerFacts | None
    basis: Basis
    epochs: int
    unlabelled: int
    multilabel: int
    samplers: tuple[SamplerResult, ...]
    warnings: tuple[ReportWarning, ...]

    @property
    def samples(self) -> int:
        """Of the corpus."""
        return self.samplers[0].corpus_samples

    @property
    def class_ratio(self) -> float:
        """Samples of the largest class / samples of the smallest, in the corpus."""
        before = [each.before for each in self.samplers[0].classes]
        return max(before) / min(before)

    @property
    def balanced(self) -> list[SamplerResult]:
        """The samplers that even all classes out."""
        return [row for row in self.samplers if row.name != "none" and row.is_balanced]

    @property
    def recommended(self) -> SamplerResult | None:
        """Of those that even the classes out at no more than `MOST_COMPUTE`, the one that sees most
        of the corpus over all epochs, and of those that see about as much the one that computes
        least; where each of them computes more, the one that computes least. None where no two
        samplers are compared, or none evens the classes out.
        """
        if len(self.samplers) < 2 or not self.balanced:
            return None
        cheap = [row for row in self.balanced if (row.relative_compute or 0) <= MOST_COMPUTE]
        if not cheap:
            return min(self.balanced, key=_computed)
        most = max(row.coverage_after for row in cheap)
        return min((r for r in cheap if r.coverage_after >= most - AS_MUCH_SEEN), key=_computed)

    def to_frame(self) -> "pd.DataFrame":
        """A row a sampler and class: `sampler`, `label`, counts before and after, coverage."""
        import pandas as pd

        return pd.DataFrame(
            {"sampler": row.spec, **each.numbers()} for row in self.samplers for each in row.classes
        )


def _computed(row: SamplerResult) -> int:
    return row.row.counts.total_tokens
