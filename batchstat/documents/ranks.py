"""What the ranks of a strategy get, and the steps in which they wait."""

from typing import Any

from batchstat.documents.base import Amount, Count, Document, Positive, one_of, rows_of
from batchstat.parameters import described
from batchstat.planning.rules import DISTRIBUTIONS, REMAINDERS


@described("The step in which most tokens are waited for.")
class WorstStep(Document):
    step: Count
    """Counted from 0."""
    rank: Count
    """The slowest."""
    tokens: Count
    """Total tokens of that rank."""
    mean_tokens: Amount
    """Total tokens of the mean rank."""
    rows: Positive
    """Rows of the largest batch that this rank has in the step."""
    width: Count
    """Tokens to which they are padded."""
    ranks_without: Count
    """How many ranks have no batch in the step."""


@described("Some consecutive steps.")
class TimelinePoint(Document):
    first_step: Count
    """Counted from 0."""
    steps: Positive
    """How many steps it stands for."""
    slowest_tokens: Count
    """The most total tokens of any rank in any of these steps."""
    mean_tokens: Amount
    """Mean total tokens per rank and step."""


@described("What the ranks get.")
class Ranks(Document):
    distribute: one_of(DISTRIBUTIONS)  # type: ignore[valid-type]
    remainder: one_of(REMAINDERS)  # type: ignore[valid-type]
    min_steps: Count
    """Steps of the rank that has the fewest."""
    max_steps: Positive
    """Steps of the rank that has most."""
    step_gap: Count
    """max_steps - min_steps: above 0, collectives hang once the ranks with fewer steps are
    done."""
    min_samples: Count
    """Samples of the rank that has the fewest, repeats counted."""
    max_samples: Positive
    """Samples of the rank that has most."""
    shared_samples: Count
    """Samples that several ranks compute."""
    worst: WorstStep
    timeline: list[TimelinePoint] | None
    """The steps in turn, in at most 100 points; null for one rank, and outside of a comparison."""


def timeline_of(line: Any) -> list[dict[str, Any]] | None:
    """Return the points of a `batchstat.simulation.meters.timeline.Timeline`; None for None."""
    if line is None:
        return None
    columns = (line.edges[:-1], line.edges[1:] - line.edges[:-1], line.slowest, line.mean)
    return rows_of(TimelinePoint, columns)
