"""compare.json, and the report that limits are held against."""

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any

from batchstat.documents.base import Document, File
from batchstat.documents.device import Calibrated, calibrated
from batchstat.documents.grouping import Sweep
from batchstat.documents.parts import parts
from batchstat.documents.profile import Corpus, OfCorpus, corpus_of, of_corpus
from batchstat.documents.spreads import SampleFacts
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.findings import Finding
from batchstat.parameters import described
from batchstat.planning.settings import ResolvedSettings
from batchstat.profiling.profile import Profile, TokenizerFacts
from batchstat.recording.run_facts import RunFacts
from batchstat.records import Amount, Count, Positive, Ratio, Record, allowed, among, told, told_of

Basis = Annotated[ResolvedSettings, allowed(description="The settings that all rows share.")]


@described("The shape of a transformer.")
class Model(Document):
    hidden: Positive = told("Width.")
    layers: Positive = told("How many layers.")
    intermediate: Positive | None = told("Width of a feed-forward layer; null for 4 x hidden.")
    vocabulary: Positive | None = told("Size of the output; null for none.")
    heads: Positive = told("Attention heads.")
    kv_heads: Positive | None = told("Heads of keys and values.")
    head_dim: Positive | None = told("Width of a head; null for hidden / heads.")
    experts: Positive = told("Feed-forward layers that a token goes through.")
    gated: bool = told("Whether a feed-forward layer has three matrices.")


@described("Which rows are recommended, by their labels.")
class Choice(Document):
    current: str = told(
        "The setup that the others are compared to: --current, else static, else the first row."
    )
    best: str | None = told(
        "What to train with: of the rows that fit, lose and repeat little more than the current "
        "setup and save at least 5 % of its compute, and 80 % of what the fastest of them saves, "
        "the one that changes the training least; the current setup where there is none. Null "
        "where that does not fit either."
    )
    argument: str | None = told(
        "What the user's own trainer is to be passed for it; null where that has no argument for "
        "it."
    )
    fastest: str | None = told(
        "The one of those rows with the least compute, where it is over 10 % faster than the "
        "best. Null where there is none."
    )
    packed: str | None = told(
        "A strategy of less compute whose rows hold several samples: it needs attention that "
        "keeps them apart. Null where there is none."
    )
    ruled_out: str | None = told(
        "The row with the least compute, where it may not be recommended since it exceeds the "
        "budget, or loses or repeats more of the corpus. Null where there is none."
    )


@described("How the learning rate may scale from the current setup to the best row: hints.")
class LearningRateHint(Record):
    batch_ratio: Amount = told(
        "Mean samples per step of the best row / those of the current setup."
    )

    @property
    @told_of(
        'Factor by the linear rule, for SGD with a warm-up (Goyal et al. 2017, "Accurate, Large '
        'Minibatch SGD").'
    )
    def linear(self) -> Amount:
        return self.batch_ratio

    @property
    @told_of(
        'Factor by the square-root rule (Krizhevsky 2014, "One weird trick"; for Adam: '
        "Malladi et al. 2022)."
    )
    def square_root(self) -> Amount:
        return sqrt(self.batch_ratio)


@described(
    """The whole epoch sorted and cut as the best row is, by its budget or its batch size: no lower
    bound, as batches cut in other places can pad a little less.
    """
)
class SortedEpoch(Record):
    strategy: Annotated[str, among(("token-budget", "bucketed"))] = told(
        "token-budget where the best row has a budget, bucketed where it has a batch size."
    )
    batches: Positive = told("Batches of the epoch sorted.")
    padding_tokens: Count = told("Padding of the epoch sorted.")
    total_tokens: Count = told("Total tokens of the epoch sorted.")

    @property
    @told_of("Padding ratio of the epoch sorted.")
    def padding_ratio(self) -> Ratio:
        return self.padding_tokens / self.total_tokens


@described(
    """What rows are compared to: batches and packed_rows are lower bounds, sorted is what sorting
    everything gives.
    """
)
class Bounds(Record):
    batches: Positive = told("Real tokens / tokens_per_batch, rounded up.")
    packed_rows: Positive = told(
        "No packing into rows of max_length has fewer rows (Martello and Toth, L2)."
    )
    sorted: SortedEpoch


@described("What several files say of the lengths that they are about.")
class Compared(File):
    corpus: Corpus = told("Which corpus was read, and how.")
    tokenizer: TokenizerFacts | None = told(
        "The tokenizer that counted; null where lengths were given."
    )
    basis: Basis

    @classmethod
    def of_report(cls, report: Any, composed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the file of a report as JSON."""
        # `widest`: the most tokens that a row may have.
        shared = {
            "corpus": corpus_of(report.corpus, report.samples),
            "calibration": calibrated(report.device, report.basis.widest),
        }
        return cls.written(report.created, {**shared, **composed}, report)


@described("Batching strategies on the same lengths. Keys may be added within this schema.")
class CompareFile(Compared, number="batchstat.compare/7"):
    run: RunFacts | None = told("The recorded run that is the current setup; null where none is.")
    model: Model | None = told("The shape of the transformer that --model names.")
    calibration: Calibrated | None = told("The calibration that --calibration names.")
    seeds: Positive = told("How many seeds each row was tried with; the rows are of the first.")
    subsample: SampleFacts | None = told(
        "How much of the corpus all numbers are of, where they are an estimate; null for all of it."
    )
    strategies: Annotated[list[Strategy], allowed(minItems=1)] = told(
        "The rows of the table, one per strategy."
    )
    choice: Choice
    learning_rate: LearningRateHint | None = told(
        "How the learning rate may scale from the current setup to the best row; null where no "
        "row is eligible."
    )
    not_shown: list[str] = told("Strategies that no row has.")
    bounds: Bounds
    sweep: Sweep | None = told(
        "One strategy with increasing read_ahead; null where none of these leaves a batch."
    )
    warnings: list[Finding] = told("What else to know about the numbers.")


@described("The numbers of one strategy on one corpus: what limits are held against.")
class Report(OfCorpus):
    basis: Basis
    calibration: Calibrated | None = told("The calibration that --calibration names.")
    strategy: Strategy


def report_document(profile: Profile, simulation: Any) -> dict[str, Any]:
    """Return the numbers of one strategy on one corpus: what limits are held against."""
    return {**of_corpus(profile), **simulation_document(simulation)}


def simulation_document(simulation: Any) -> dict[str, Any]:
    """Return that part of `report_document` which depends on the strategy and its settings."""
    return {
        "basis": parts(ResolvedSettings).json(simulation.basis),
        "calibration": calibrated(simulation.device, simulation.basis.widest),
        "strategy": strategy_of(simulation.row),
    }


def comparison_document(comparison: Any) -> dict[str, Any]:
    """Return compare.json of a `batchstat.Comparison`."""
    rows = [
        strategy_of(row, comparison.model, comparison.speed_up(row))
        for row in comparison.strategies
    ]
    composed = {"strategies": rows, "choice": choice_of(comparison.changes)}
    return CompareFile.of_report(comparison, composed)


def choice_of(changes: Any) -> dict[str, str | None]:
    """Return the object `Choice`: the labels of the recommended rows, None where there is none."""
    return {
        "current": changes.current.label,
        "best": changes.best and changes.best.label,
        # The line of the best row is empty where the trainer has no argument for it.
        "argument": (changes.star and changes.star.line) or None,
        # These two are changes, not rows.
        "fastest": changes.fastest and changes.fastest.row.label,
        "packed": changes.packed and changes.packed.row.label,
        "ruled_out": changes.ruled_out and changes.ruled_out.label,
    }
