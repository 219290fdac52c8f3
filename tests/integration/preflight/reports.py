"""The batches that `preflight` reports, in the form in which trainers' own are compared."""

from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

from trainers import Batch

import batchstat
from batchstat.planning.settings import Settings
from batchstat.simulation.preflight import Preflight


def batches_of(report: Preflight, rank: int, *, with_trained: bool) -> list[Batch]:
    """The batches of a rank as a trainer has them; trained tokens where these are compared."""
    basis = asdict(report.simulation.basis)
    settings = {key: value for key, value in basis.items() if key in Settings.__dataclass_fields__}
    sampler = batchstat.BatchSampler(
        report.samples.profile, report.setup.strategy, rank=rank, **settings
    )
    made: list[Batch] = []
    for batch in sampler.batches():
        lengths = [b - a for a, b in zip(batch.starts, batch.stops, strict=True)]
        ends = [0, *accumulate(batch.rows)]
        rows = [sum(lengths[a:b]) for a, b in pairwise(ends)]
        trained = batch.trained_tokens
        if trained is None:  # all but the first of each sample
            trained = sum(lengths) - len(lengths)
        made.append((batch.width, rows, trained if with_trained else None))
    return made


def steps_of(report: Preflight, rank: int, epoch: int = 0) -> list[list[Any]]:
    """Width, tokens of each sample and trained tokens of each batch of a rank."""
    basis = asdict(report.simulation.basis)
    settings = {key: value for key, value in basis.items() if key in Settings.__dataclass_fields__}
    sampler = batchstat.BatchSampler(
        report.samples.profile, report.setup.strategy, rank=rank, **settings | {"epoch": epoch}
    )
    made = []
    for batch in sampler.batches():
        held = [stop - start for start, stop in zip(batch.starts, batch.stops, strict=True)]
        made.append([batch.width, held, batch.trained_tokens])
    return made
