"""compare.json, and the report that limits are held against."""

from typing import Annotated, Any

from pydantic import Field

from batchstat.documents.base import (
    Amount,
    Count,
    Document,
    File,
    Positive,
    Ratio,
    head,
    one_of,
)
from batchstat.documents.corpus import Corpus, Tokenizer, corpus_of
from batchstat.documents.device import Calibrated, calibrated
from batchstat.documents.profile import OfCorpus, of_corpus
from batchstat.documents.runs import RecordedRun, run_of
from batchstat.documents.strategy import Grouping, Strategy, strategy_of
from batchstat.parameters import described
from batchstat.planning.rules import (
    DISTRIBUTIONS,
    LOSSES,
    NUMBERS,
    ORDERS,
    OVERFLOWS,
    REMAINDERS,
)
from batchstat.profiling.profile import Profile

SCHEMA = "batchstat.compare/5"


@described("The settings that all rows share.")
class Basis(Document):
    tokens_per_batch: Positive
    max_length: Positive
    overflow: one_of(OVERFLOWS)  # type: ignore[valid-type]
    batch_size: Positive
    read_ahead: Positive
    max_samples: Positive | None
    order: one_of(ORDERS)  # type: ignore[valid-type]
    seed: Count
    epoch: Count
    world_size: Positive
    distribute: one_of(DISTRIBUTIONS)  # type: ignore[valid-type]
    balance_by: one_of(NUMBERS)  # type: ignore[valid-type]
    remainder: one_of(REMAINDERS)  # type: ignore[valid-type]
    gradient_accumulation_steps: Positive
    loss: one_of(LOSSES) | None  # type: ignore[valid-type]
    """How the losses of tokens become that of a step; null where no weights are reported."""
    pad_to_multiple_of: Positive
    drop_last: bool
    sampler: str
    keep_labels: list[str]


@described("The shape of a transformer.")
class Model(Document):
    hidden: Positive
    """Width."""
    layers: Positive
    """How many layers."""
    intermediate: Positive | None
    """Width of a feed-forward layer; null for 4 x hidden."""
    vocabulary: Positive | None
    """Size of the output; null for none."""
    heads: Positive
    """Attention heads."""
    kv_heads: Positive | None
    """Heads of keys and values."""
    head_dim: Positive | None
    """Width of a head; null for hidden / heads."""
    experts: Positive
    """Feed-forward layers that a token goes through."""
    gated: bool
    """Whether a feed-forward layer has three matrices."""


@described("How much of the corpus all numbers are of, where they are an estimate.")
class Sample(Document):
    samples: Positive
    """Samples that were drawn."""
    corpus_samples: Positive
    """Samples of the whole corpus."""
    blocks: Positive
    """Blocks of consecutive samples that were drawn."""
    block_size: Positive
    """Samples per block."""
    groups: Annotated[int, Field(ge=2)]
    """Groups of blocks, simulated apart to tell how far the estimate may be off."""
    confidence: Ratio
    """Probability that an interval holds the number of the whole corpus."""
    share: Ratio
    """Samples that were drawn / samples of the whole corpus."""


@described("Which rows are recommended, by their labels.")
class Choice(Document):
    current: str
    """The setup that the others are compared to: --current, else static, else the first row."""
    best: str | None
    """What to train with: of the rows that fit, lose and repeat little more than the current setup
    and save at least 5 % of its compute, and 80 % of what the fastest of them saves, the one that
    changes the training least; the current setup where there is none. Null where that does not fit
    either."""
    argument: str | None
    """What the user's own trainer is to be passed for it; null where that has no argument
    for it."""
    fastest: str | None
    """The one of those rows with the least compute, where it is over 10 % faster than the best.
    Null where there is none."""
    packed: str | None
    """A strategy of less compute whose rows hold several samples: it needs attention that keeps
    them apart. Null where there is none."""
    ruled_out: str | None
    """The row with the least compute, where it may not be recommended since it exceeds the budget,
    or loses or repeats more of the corpus. Null where there is none."""


@described("How the learning rate may scale from the current setup to the best row: hints.")
class LearningRate(Document):
    batch_ratio: Amount
    """Mean samples per step of the best row / those of the current setup."""
    linear: Amount
    """Factor by the linear rule, for SGD with a warm-up (Goyal et al. 2017, "Accurate, Large
    Minibatch SGD")."""
    square_root: Amount
    """Factor by the square-root rule (Krizhevsky 2014, "One weird trick"; for Adam: Malladi et al.
    2022)."""


@described(
    """The whole epoch sorted and cut as the best row is, by its budget or its batch size: no lower
    bound, as batches cut in other places can pad a little less.
    """
)
class SortedEpoch(Document):
    strategy: one_of(("token-budget", "bucketed"))  # type: ignore[valid-type]
    """token-budget where the best row has a budget, bucketed where it has a batch size."""
    batches: Positive
    """Batches of the epoch sorted."""
    padding_tokens: Count
    """Padding of the epoch sorted."""
    total_tokens: Count
    """Total tokens of the epoch sorted."""
    padding_ratio: Ratio
    """Padding ratio of the epoch sorted."""


@described(
    """What rows are compared to: batches and packed_rows are lower bounds, sorted is what sorting
    everything gives.
    """
)
class Bounds(Document):
    batches: Positive
    """Real tokens / tokens_per_batch, rounded up."""
    packed_rows: Positive
    """No packing into rows of max_length has fewer rows (Martello and Toth, L2)."""
    sorted: SortedEpoch


@described("The strategy with one read_ahead.")
class SweepPoint(Document):
    read_ahead: Positive
    batches: Positive
    padding_tokens: Count
    total_tokens: Count
    grouping: Grouping
    padding_ratio: Ratio


@described("Padding against read_ahead, all else equal.")
class Sweep(Document):
    strategy: Annotated[str, Field(validation_alias="spec")]
    """The strategy, as it is written."""
    points: Annotated[list[SweepPoint], Field(min_length=1)]
    """One per read_ahead that was tried."""
    recommended: Annotated[str, Field(validation_alias="recommended_spec")]
    """The strategy with the smallest read_ahead whose padding is within half a point of the
    best."""


@described("What else to know about the numbers.")
class Warned(Document):
    code: str
    """A stable name of the kind of warning."""
    message: str
    """The warning in words."""


@described("What several files say of the lengths that they are about.")
class Compared(Document):
    corpus: Corpus
    """Which corpus was read, and how."""
    tokenizer: Tokenizer | None
    """The tokenizer that counted; null where lengths were given."""
    basis: Basis


@described("Batching strategies on the same lengths. Keys may be added within this schema.")
class CompareFile(Compared, File):
    run: RecordedRun | None
    """The recorded run that is the current setup; null where none is."""
    model: Model | None
    """The shape of the transformer that --model names."""
    calibration: Calibrated | None
    """The calibration that --calibration names."""
    seeds: Positive
    """How many seeds each row was tried with; the rows are of the first."""
    subsample: Sample | None
    """How much of the corpus all numbers are of, where they are an estimate; null for all of it."""
    strategies: Annotated[list[Strategy], Field(min_length=1)]
    """The rows of the table, one per strategy."""
    choice: Choice
    learning_rate: LearningRate | None
    """How the learning rate may scale from the current setup to the best row; null where no row is
    eligible."""
    not_shown: list[str]
    """Strategies that no row has."""
    bounds: Bounds
    sweep: Sweep | None
    """One strategy with increasing read_ahead; null where none of these leaves a batch."""
    warnings: list[Warned]
    """What else to know about the numbers."""


@described("The numbers of one strategy on one corpus: what limits are held against.")
class Report(OfCorpus):
    basis: Basis
    calibration: Calibrated | None
    """The calibration that --calibration names."""
    strategy: Strategy


def report_document(profile: Profile, simulation: Any) -> dict[str, Any]:
    """Return the numbers of one strategy on one corpus: what limits are held against."""
    return {**of_corpus(profile).to_json(), **simulation_document(simulation)}


def simulation_document(simulation: Any) -> dict[str, Any]:
    """Return that part of `report_document` which depends on the strategy and its settings."""
    calibration = calibrated(simulation.device, simulation.basis.widest)
    return {
        "basis": Basis.of(simulation.basis).to_json(),
        "calibration": calibration and calibration.to_json(),
        "strategy": strategy_of(simulation.row).to_json(),
    }


def comparison_document(comparison: Any) -> dict[str, Any]:
    """Return compare.json of a `batchstat.Comparison`."""
    rows = [
        strategy_of(row, comparison.model, comparison.speed_up(row))
        for row in comparison.strategies
    ]
    made = {
        **head(SCHEMA, comparison.created),
        "corpus": corpus_of(comparison.corpus, comparison.samples),
        "run": run_of(comparison.run),
        "calibration": calibrated(comparison.device, comparison.basis.widest),
        "strategies": rows,
        "choice": choice_of(comparison.changes),
        "bounds": _bounds(comparison.bounds),
    }
    return CompareFile.of(made, comparison).to_json()


def choice_of(changes: Any) -> dict[str, str | None]:
    """Return which rows are recommended, by their labels."""
    named = {name: getattr(changes, name) for name in ("fastest", "packed")}
    rows = {name: each and each.row for name, each in named.items()}
    rows |= {name: getattr(changes, name) for name in ("current", "best", "ruled_out")}
    line = changes.star.line if changes.star is not None else ""
    return {name: row and row.label for name, row in rows.items()} | {"argument": line or None}


def _bounds(bounds: Any) -> dict[str, Any]:
    names = SortedEpoch.model_fields
    return {
        "batches": bounds.batches,
        "packed_rows": bounds.packed_rows,
        "sorted": {name: getattr(bounds, f"sorted_{name}") for name in names},
    }
