"""The batches that `preflight` reports, in the form in which trainers' own are compared."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

import batchstat
from batchstat.planning.settings import Settings
from batchstat.trainers.preflight.report import Preflight
from trainers import Batch


def sampled(report: Preflight, rank: int) -> Iterator[Any]:
    """The batches of a rank, each with the tokens of its samples."""
    basis = asdict(report.simulation.basis)
    settings = {key: value for key, value in basis.items() if key in Settings.__dataclass_fields__}
    sampler = batchstat.BatchSampler(
        report.samples.profile,
        report.setup.batching.strategy,
        rank=rank,
        **settings,
    )
    for batch in sampler.batches():
        yield batch, [b - a for a, b in zip(batch.starts, batch.stops, strict=True)]


def batches_of(report: Preflight, rank: int, *, with_trained: bool) -> list[Batch]:
    """The batches of a rank as a trainer has them; trained tokens where these are compared."""
    made: list[Batch] = []
    for batch, lengths in sampled(report, rank):
        ends = [0, *accumulate(batch.rows)]
        rows = [sum(lengths[a:b]) for a, b in pairwise(ends)]
        trained = batch.trained_tokens
        if trained is None:  # all but the first of each sample, or of each row that is one text
            is_joined = report.setup.batching.strategy.given.get("packing") == "wrapped"
            trained = sum(lengths) - (len(rows) if is_joined else len(lengths))
        made.append((batch.width, rows, trained if with_trained else None))
    return made
