"""What every loop trains: a parameter per token, which is the token's loss, so that after backward
and all-reduce the gradient of theta[i] is the weight of token i.
"""

from itertools import pairwise

import numpy as np
import torch
from weight_cases import FIRST, MASKS

from batchstat import BatchSampler
from batchstat.planning.rank_batches import Batch

IGNORED = -100


class Recorder(torch.optim.Optimizer):
    """An optimizer that changes nothing and keeps the gradient of every step."""

    def __init__(self, theta):
        super().__init__([theta], {"lr": 0.0})
        self.theta, self.gradients = theta, []

    def step(self, closure=None):
        if closure is not None:
            closure()
        self.gradients.append(self.theta.grad.numpy().copy())


class Tokens(torch.nn.Module):
    """Gives the loss of every token but the first of each row, which nothing predicts."""

    def __init__(self):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.zeros(FIRST[-1], dtype=torch.float64))

    def forward(self, places):
        return self.theta[places[:, 1:]]


def inputs_of(batch: Batch) -> dict[str, torch.Tensor]:
    """Return a batch as a collator does: padded, each token's place as its id, and without a label
    for the first token of a packed sample.
    """
    shape = (len(batch.rows), batch.width)
    places, labels = np.zeros(shape, np.int64), np.full(shape, IGNORED)
    filled = np.zeros(shape, np.int64)
    parts = list(zip(batch.records, batch.starts, batch.stops, strict=True))
    for row, (first, last) in enumerate(pairwise(np.cumsum([0, *batch.rows]))):
        at = 0
        for record, start, stop in parts[first:last]:
            end = at + stop - start
            places[row, at:end] = FIRST[record] + np.arange(start, stop)
            labels[row, at:end] = np.where(MASKS[record][start:stop], 1, IGNORED)
            if at > 0:
                labels[row, at] = IGNORED
            filled[row, at:end] = 1
            at = end
    tensors = {"input_ids": places, "labels": labels, "attention_mask": filled}
    return {name: torch.from_numpy(array) for name, array in tensors.items()}


class Collator:
    """Pads the samples that a loader took, which must be those of the next planned batch."""

    def __init__(self, sampler: BatchSampler):
        self.batches = sampler.batches()

    def __call__(self, samples):
        batch = next(self.batches)
        assert [sample["record"] for sample in samples] == batch.records
        return inputs_of(batch)


DATASET = [{"record": i} for i in range(len(MASKS))]
