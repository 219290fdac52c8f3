"""Limits that have a flag and a name in the configuration: one row each."""

from typing import Literal, NamedTuple, get_args

Bound = Literal["max", "min", "max-increase", "max-decrease"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)


class NamedLimit(NamedTuple):
    """A limit with a name.

    Attributes:
        path: the number of the report that it limits.
        bound: whether the number must not be above or below the limit, or not rise by more.
        label: the number in a sentence, as in "padding is 7%".
        help: one sentence on the number.
        example: a limit as it is written; None for a limit that is on or off, which any number
            above 0 exceeds.
    """

    path: str
    bound: Bound
    label: str
    help: str
    example: str | None


NAMED_LIMITS: dict[str, NamedLimit] = {
    "max-padding": NamedLimit(
        "strategy.padding_ratio", "max", "padding", "Share of padding in all tokens computed.", "5%"
    ),
    "min-fill": NamedLimit(
        "strategy.fill",
        "min",
        "fill",
        "How full the batches are, as a share of their budget.",
        "90%",
    ),
    "max-batches": NamedLimit(
        "strategy.batches", "max", "the number of batches", "Batches per epoch.", "N"
    ),
    "max-truncated": NamedLimit(
        "strategy.truncated_ratio",
        "max",
        "the share of truncated tokens",
        "Share of the corpus's tokens lost to max_length.",
        "1%",
    ),
    "max-dropped": NamedLimit(
        "strategy.dropped_ratio",
        "max",
        "the share of dropped tokens",
        "Share of the corpus's tokens that are in no batch.",
        "0.1%",
    ),
    "max-duplicated": NamedLimit(
        "strategy.duplicated_ratio",
        "max",
        "the share of duplicated tokens",
        "Share of real tokens that are duplicates.",
        "0.1%",
    ),
    "min-coverage": NamedLimit(
        "strategy.coverage",
        "min",
        "the share of the corpus that is computed",
        "Share of the corpus's samples that an epoch computes.",
        "99%",
    ),
    "max-rank-idle": NamedLimit(
        "strategy.rank_idle",
        "max",
        "the share of time that ranks wait",
        "Share of time that ranks wait for the slowest.",
        "5%",
    ),
    "max-weight-spread": NamedLimit(
        "strategy.trained.token_weight.spread",
        "max",
        "the 95th / the 5th percentile of the weight of a trained token",
        "How many times a heavy trained token outweighs a light one (1 is exact).",
        "X",
    ),
    "equal-steps": NamedLimit(
        "strategy.ranks.step_gap",
        "max",
        "the difference between the ranks' numbers of steps",
        "Fail unless all ranks run the same number of steps.",
        None,
    ),
    "max-over-budget": NamedLimit(
        "strategy.over_budget_batches",
        "max",
        "the number of batches over budget",
        "Number of batches above tokens_per_batch.",
        "N",
    ),
    "max-class-ratio": NamedLimit(
        "class_ratio",
        "max",
        "the largest class / the smallest",
        "Ratio of the largest class to the smallest.",
        "X",
    ),
    "min-samples": NamedLimit(
        "corpus.samples",
        "min",
        "the number of samples",
        "Samples of the corpus: a file that was not downloaded has few.",
        "N",
    ),
    "max-p99": NamedLimit(
        "lengths.p99", "max", "the p99 length", "99th percentile of sample lengths.", "N"
    ),
    "max-increase": NamedLimit(
        "strategy.padding_ratio",
        "max-increase",
        "padding",
        "Increase of padding over the baseline; 0 unless set.",
        "0.5pp",
    ),
}
