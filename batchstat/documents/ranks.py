"""What the ranks of a strategy get, and the steps in which they wait."""

from typing import Annotated, Any

from batchstat.documents.base import Document, rows_of
from batchstat.parameters import described
from batchstat.planning.rules import DISTRIBUTIONS, REMAINDERS
from batchstat.records import Amount, Count, Positive, Record, among, told


@described(
    "The step in which most tokens are waited for; where ranks wait in each micro-batch, its "
    "micro-batch of the longest wait."
)
class WorstStep(Record):
    step: Count = told("Counted from 0.")
    rank: Count = told("The slowest.")
    tokens: Count = told("Total tokens of that rank.")
    mean_tokens: Amount = told("Total tokens of the mean rank.")
    rows: Positive = told("Rows of the largest batch that this rank has in it.")
    width: Count = told("Tokens to which they are padded.")
    ranks_without: Count = told("How many ranks have no batch in it.")


@described("Some consecutive steps.")
class TimelinePoint(Document):
    first_step: Count = told("Counted from 0.")
    steps: Positive = told("How many steps it stands for.")
    slowest_tokens: Count = told(
        "Total tokens of the slowest rank, the most of any of these steps; where ranks wait in "
        "each micro-batch, the sum over those of the step."
    )
    mean_tokens: Amount = told("Mean total tokens per rank and step.")


@described("What the ranks get.")
class Ranks(Document):
    distribute: Annotated[str, among(DISTRIBUTIONS)]
    remainder: Annotated[str, among(REMAINDERS)]
    min_steps: Count = told("Steps of the rank that has the fewest.", of="ranks.min_steps")
    max_steps: Count = told("Steps of the rank that has most.", of="ranks.max_steps")
    step_gap: Count = told(
        "max_steps - min_steps: above 0, collectives hang once the ranks with fewer steps are "
        "done.",
        of="ranks.step_gap",
    )
    min_samples: Count = told("Samples of the rank that has the fewest, repeats counted.")
    max_samples: Positive = told("Samples of the rank that has most.")
    shared_samples: Count = told("Samples that several ranks compute.")
    worst: WorstStep = told(of="ranks.worst")
    timeline: list[TimelinePoint] | None = told(
        "The steps in turn, in at most 100 points; null for one rank, and outside of a comparison."
    )


def timeline_of(line: Any) -> list[dict[str, Any]] | None:
    """Return the points of a `batchstat.simulation.results.Timeline`; None for None."""
    if line is None:
        return None
    columns = (line.edges[:-1], line.edges[1:] - line.edges[:-1], line.slowest, line.mean)
    return rows_of(TimelinePoint, columns)
