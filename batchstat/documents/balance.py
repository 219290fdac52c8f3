"""balance.json."""

from typing import Annotated, Any

from batchstat.documents.base import Document
from batchstat.documents.comparison import Compared
from batchstat.documents.device import Calibrated
from batchstat.documents.profile import percentiles
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.findings import Finding
from batchstat.parameters import described
from batchstat.records import (
    Amount,
    AtLeastOne,
    Count,
    Positive,
    Ratio,
    Record,
    allowed,
    told,
    told_of,
    untold,
)


@described("The lengths of what is drawn, whole.")
class DrawnLengths(Document):
    mean: Amount
    p50: Count
    p90: Count
    max: Count


@described("One class under a sampler.")
class ClassDraw(Record):
    label: str
    before: Positive = told("Samples of the class in the corpus.")
    after: Count = told("Samples of the class that are drawn, repeats counted.")
    unique_samples: Count
    max_repeats: Count
    tokens_before: int = untold()
    tokens_after: int = untold()
    # Distinct samples that are drawn up to each epoch.
    seen: tuple[int, ...] = untold()

    @property
    @told_of()
    def coverage(self) -> Ratio:
        """Distinct samples drawn in an epoch / samples of the class."""
        return self.unique_samples / self.before

    @property
    @told_of()
    def coverage_after(self) -> Ratio:
        """Distinct samples drawn in all epochs / samples of the class."""
        return self.seen[-1] / self.before

    @property
    @told_of("Tokens per sample of the class, in the corpus.")
    def mean_length(self) -> Amount:
        return self.tokens_before / self.before

    @property
    @told_of("Tokens per sample of the class, of those drawn; null where none is.")
    def mean_length_after(self) -> Amount | None:
        return self.tokens_after / self.after if self.after else None


@described("What has been drawn at least once, up to an epoch.")
class FollowedEpoch(Document):
    epoch: Count
    class_ratio: AtLeastOne
    coverage: Ratio
    min_class_coverage: Ratio = told("The share of the class of which least has been drawn.")


@described("One class on one rank.")
class RankClass(Document):
    label: str
    count: Count


@described("What one rank computes.")
class Rank(Document):
    rank: Count
    samples: Count
    classes: list[RankClass]


@described("One sampler: a row of the table.")
class Sampler(Document):
    name: str = told("The bare name of the sampler.")
    params: dict[str, Any] = told("Its parameters.")
    samples: Positive = told(
        "Samples that it draws for an epoch, repeats counted, before any batching."
    )
    tokens: Count = told("Their tokens, whole.", of="lengths.sum")
    unique_samples: Positive = told("Different samples among them.", of="unique")
    coverage: Ratio = told("unique_samples / samples of the corpus.")
    coverage_after: Ratio = told(
        "The share of the corpus that is drawn at least once in all epochs that are followed."
    )
    unseen_samples: Count = told("Samples of the corpus that the epoch does not draw.", of="unseen")
    max_repeats: Positive = told("How often the sample is drawn that is drawn most often.")
    class_ratio: AtLeastOne = told(
        "Samples of the largest class / samples of the smallest that is drawn at all."
    )
    relative_compute: Annotated[float, allowed(exclusiveMinimum=0)] | None = told(
        "Total tokens of an epoch, or its seconds by a calibration, / those of the sampler none "
        "under the same strategy; null where that leaves no batch."
    )
    lengths: DrawnLengths
    classes: list[ClassDraw] = told("Each class, in the order of its first sample.")
    epochs: list[FollowedEpoch] = told("What has been drawn at least once, epoch by epoch.")
    ranks: list[Rank] = told("What each rank computes.")
    strategy: Strategy


@described(
    """Samplers that balance classes, on the same corpus. Keys may be added within this schema."""
)
class BalanceFile(Compared, number="batchstat.balance/5"):
    calibration: Calibrated | None = told("The calibration that --calibration names.")
    epochs: Positive = told("How many epochs coverage is followed over.")
    unlabelled_samples: Count = told(
        "Samples without a label, or without one of --keep-labels: they are of no class, and "
        "only the sampler none draws them, unless labels are named to keep.",
        of="unlabelled",
    )
    multilabel_samples: Count = told(
        "Samples of several labels: each counts as the rarest of them.", of="multilabel"
    )
    samplers: Annotated[list[Sampler], allowed(minItems=1)] = told(
        "The rows of the table, one per sampler."
    )
    recommended: str | None = told(
        "Of the samplers that even the classes out at no more than 1.5 times the compute of none, "
        "the one that sees most of the corpus over all epochs, and of those within a point of it "
        "the one that computes least; where each computes more, the one that computes least. Null "
        "where no two are compared or none evens the classes out.",
        of="recommended.spec",
    )
    warnings: list[Finding] = told("What else to know about the numbers.")


def balance_document(report: Any) -> dict[str, Any]:
    """Return balance.json of a `batchstat.simulation.balance.report.BalanceReport`."""
    rows = [_sampler(row, report.basis.epoch) for row in report.samplers]
    return BalanceFile.of_report(report, {"samplers": rows})


def _sampler(result: Any, first_epoch: int) -> dict[str, Any]:
    """Return the object `Sampler` of a `SamplerResult`, whose first epoch is `first_epoch`."""
    # One object for each epoch; `seen` is how many distinct samples were drawn up to its end.
    epochs = [
        {
            "epoch": first_epoch + i,
            "class_ratio": result.ratios[i],
            "coverage": seen / result.corpus_samples,
            "min_class_coverage": min(draw.seen[i] / draw.before for draw in result.classes),
        }
        for i, seen in enumerate(result.seen)
    ]
    # One object for each rank, with what it computes of each class under the result's strategy.
    ranks = [
        {
            "rank": rank,
            "samples": counts.samples,
            "classes": [
                {"label": of_class.label, "count": count}
                for of_class, count in zip(result.classes, counts.classes, strict=True)
            ],
        }
        for rank, counts in enumerate(result.row.counts.sample_coverage.ranks)
    ]
    composed = {
        "lengths": DrawnLengths.of(percentiles(result.lengths), result.lengths),
        "epochs": epochs,
        "ranks": ranks,
        "strategy": strategy_of(result.row),
    }
    return Sampler.of(composed, result)
