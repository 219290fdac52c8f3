"""The end of an epoch spread over all ranks."""

import numpy as np

from batchstat.batching.cutting import round_up
from batchstat.batching.plan import BatchPlan, Ints, offsets_of, take_groups


def spread_tail(plan: BatchPlan, world_size: int, multiple: int) -> BatchPlan:
    """The plan with the rows of the steps that do not go round cut anew into a batch a rank.

    Their sizes differ by 1 at most; where there are fewer rows than ranks, the first rows are
    repeated. Source: lhotse's CutSampler, which redistributes the examples of its last batches.

    Args:
        plan: of the whole epoch.
        world_size: how many ranks.
        multiple: widths are rounded up to one of it.
    """
    steps = len(plan.step_offsets) - 1
    rest = steps % world_size
    if rest == 0:
        return plan
    kept_batches = plan.step_offsets[steps - rest]
    kept_rows = plan.batch_offsets[kept_batches]
    rows = np.arange(kept_rows, len(plan.row_offsets) - 1)
    if len(rows) < world_size:
        rows = np.resize(rows, world_size)
    least, more = divmod(len(rows), world_size)
    row_offsets, entries = take_groups(
        plan.row_offsets, np.concatenate([np.arange(kept_rows), rows])
    )
    tokens = np.add.reduceat(plan.lengths[entries], row_offsets[kept_rows:-1])
    edges = offsets_of(least + (np.arange(world_size) < more))
    widest = np.maximum.reduceat(tokens, edges[:-1])
    return BatchPlan(
        samples=plan.samples[entries],
        lengths=plan.lengths[entries],
        row_offsets=row_offsets,
        batch_offsets=_extended(plan.batch_offsets[: kept_batches + 1], edges),
        step_offsets=_extended(plan.step_offsets[: steps - rest + 1], np.arange(world_size + 1)),
        widths=np.concatenate([plan.widths[:kept_batches], round_up(widest, multiple)]),
        starts=None if plan.starts is None else plan.starts[entries],
    )


def _extended(offsets: Ints, more: Ints) -> Ints:
    return np.concatenate([offsets, offsets[-1] + more[1:]])
