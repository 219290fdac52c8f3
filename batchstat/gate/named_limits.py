"""Limits that have a flag and a name in the configuration: one row each."""

from typing import Literal, NamedTuple, get_args

Bound = Literal["max", "min", "max-increase", "max-decrease"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)


class NamedLimit(NamedTuple):
    """A limit with a name."""

    path: str
    label: str
    help: str
    example: str | None  # a limit as it is written
    bound: Bound = "max"


NAMED_LIMITS: dict[str, NamedLimit] = {
    "max-padding": NamedLimit(
        "strategy.padding_ratio", "padding", "Share of padding in all tokens computed.", "5%"
    ),
    "min-fill": NamedLimit(
        "strategy.fill",
        "fill",
        "How full the batches are, as a share of their budget.",
        "90%",
        bound="min",
    ),
    "max-batches": NamedLimit(
        "strategy.batches", "the number of batches", "Batches per epoch.", "N"
    ),
    "max-truncated": NamedLimit(
        "strategy.truncated_ratio",
        "the share of truncated tokens",
        "Share of the corpus's tokens lost to max_length.",
        "1%",
    ),
    "max-dropped": NamedLimit(
        "strategy.dropped_ratio",
        "the share of dropped tokens",
        "Share of the corpus's tokens that are in no batch.",
        "0.1%",
    ),
    "max-duplicated": NamedLimit(
        "strategy.duplicated_ratio",
        "the share of duplicated tokens",
        "Share of real tokens that are duplicates.",
        "0.1%",
    ),
    "min-coverage": NamedLimit(
        "strategy.coverage",
        "the share of the corpus that is computed",
        "Share of the corpus's samples that an epoch computes.",
        "99%",
        bound="min",
    ),
    "max-rank-idle": NamedLimit(
        "strategy.rank_idle",
        "the share of time that ranks wait",
        "Share of time that ranks wait for the slowest.",
        "5%",
    ),
    "max-weight-spread": NamedLimit(
        "strategy.trained.token_weight.spread",
        "the 95th / the 5th percentile of the weight of a trained token",
        "How many times a heavy trained token outweighs a light one (1 is exact).",
        "X",
    ),
    "equal-steps": NamedLimit(
        "strategy.ranks.step_gap",
        "the difference between the ranks' numbers of steps",
        "Fail unless all ranks run the same number of steps.",
        None,
    ),
    "max-over-budget": NamedLimit(
        "strategy.over_budget_batches",
        "the number of batches over budget",
        "Number of batches above tokens_per_batch.",
        "N",
    ),
    "max-class-ratio": NamedLimit(
        "class_ratio",
        "the largest class / the smallest",
        "Ratio of the largest class to the smallest.",
        "X",
    ),
    "min-samples": NamedLimit(
        "corpus.samples",
        "the number of samples",
        "Samples of the corpus: a file that was not downloaded has few.",
        "N",
        bound="min",
    ),
    "max-p99": NamedLimit(
        "lengths.p99", "the p99 length", "99th percentile of sample lengths.", "N"
    ),
    "max-increase": NamedLimit(
        "strategy.padding_ratio",
        "padding",
        "Increase of padding over the base; 0 where --base is the only limit.",
        "0.5pp",
        bound="max-increase",
    ),
}
