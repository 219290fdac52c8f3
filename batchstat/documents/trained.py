"""The trained tokens of an epoch, and their weights."""

from batchstat.parameters import described
from batchstat.records import Amount, AtLeastOne, Count, Record, told, told_of


@described("How a number differs.")
class Amounts(Record):
    mean: Amount
    std: Amount = told("Standard deviation of the population.")
    min: Count
    max: Count


@described("The tokens of one class.")
class ClassWeight(Record):
    label: str | None = told("The class; null for samples without one.")
    weight: Amount | None = told("Mean weight of its trained tokens; null if it has none.")


@described(
    """Weight of a trained token: its share of its step's gradient, relative to a loss summed over
    the whole step and divided once. 1 is exact; which loss it is, basis.loss says.
    """
)
class TokenWeights(Record):
    p5: Amount = told("The smallest weight that at least 5 % of the tokens do not exceed.")
    p95: Amount = told("The smallest weight that at least 95 % of the tokens do not exceed.")
    shortest_tenth: Amount | None = told(
        "Mean weight of the tokens of the shortest tenth of samples; null if it has none."
    )
    longest_tenth: Amount | None = told(
        "Mean weight of the tokens of the longest tenth of samples; null if it has none."
    )
    classes: tuple[ClassWeight, ...] | None = told(
        "Mean weight of each class; null where there are no labels."
    )

    @property
    @told_of("p95 / p5: how many times a heavy token outweighs a light one.", after="p95")
    def spread(self) -> AtLeastOne:
        return self.p95 / self.p5


@described(
    """The tokens that carry loss, as ranks compute them. The first token of a sample is not among
    them: nothing predicts it.
    """
)
class TrainedCounts(Record):
    tokens: Count = told("Trained tokens of all batches, repeats counted.")
    untrained_samples: Count = told(
        "Samples without a trained token in any part; split ones count once."
    )
    untrained_batches: Count = told(
        "Batches without a trained token: a mean over their tokens is 0/0."
    )
    per_step: Amounts = told("Trained tokens of a step, over all ranks.")
    per_rank: Amounts = told("Trained tokens of one rank in one step.")
    weights: TokenWeights | None = told(
        "How much a trained token weighs in the gradient of its step; null if there is none.",
        key="token_weight",
    )
