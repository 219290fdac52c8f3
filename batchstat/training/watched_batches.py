"""Batches of the first steps of a training, and what they show of its loss."""

import math
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from batchstat.applying.step_state import all_agree, largest_of_ranks
from batchstat.recording.recorder.arguments import WholeNumbers, as_array
from batchstat.recording.recorder.forward import Forward
from batchstat.recording.recorder.read_batches import ReadBatch

SAME = 0.02  # by which weights that are equal may differ in numbers of few bits
_TOLD = 0.1  # by which numbers of tokens differ that tell a sum over a step from a mean of a batch


@dataclass(eq=False)
class WatchedBatch:
    """A batch that the loader handed out, and what was computed of it."""

    data: Any
    forwards: list[tuple[list[ReadBatch], Forward]] = field(default_factory=list)
    arguments: list[tuple[Any, Any]] = field(default_factory=list)  # of each forward
    step: int = 0
    # Of each forward, whether the loss that was trained has no other width than its outputs.
    is_inside: list[bool] = field(default_factory=list)
    # (weights of trained tokens in the loss, whether only real tokens have some, and those of a row
    # the same), of each forward whose loss is computed of its logits outside.
    weights: list[tuple[Any, bool]] = field(default_factory=list)

    @property
    def arrays(self) -> Any:
        """Its tensors of whole numbers, as arrays in the same mappings and sequences."""
        return WholeNumbers(self.data).converted(as_array)


def why_unseen(batches: list[WatchedBatch]) -> str:
    """Return why batches do not show that padding has no part in the loss; empty if they do."""
    if not batches:
        return "no batch of its loader was seen in a forward of its model"
    if all(all(each.is_inside) for each in batches):
        return ""
    unknown = (
        "what its loss, outside of its model, divides by was not seen: batchstat run --apply "
        "checks that"
    )
    totals: dict[int, float] = defaultdict(float)
    trained: dict[int, int] = defaultdict(int)
    for each in batches:
        if len(each.weights) != len(each.forwards):
            return unknown
        for weights, is_of_tokens in each.weights:
            if not is_of_tokens:
                return "padding, or tokens of one row differently, have a part in its loss"
            totals[each.step] += float(weights.sum())
            trained[each.step] += int((weights > 0).sum())
    # A mean over trained tokens: the weights of a step have one sum, however many tokens it has.
    least, most = min(totals.values()), max(totals.values())
    return "" if most - least <= SAME * most and len({*trained.values()}) > 1 else unknown


def weights_apart(batches: list[WatchedBatch], over_ranks: bool) -> float:
    """Return by how much trained tokens of one step weigh differently, as a share: those of this
    rank, or of all of them, which all ask. Infinite where that was not seen, as where batches have
    equally many tokens.
    """
    steps: dict[int, list[tuple[float, int]]] = defaultdict(list)  # (weight of a token, tokens)
    is_seen = bool(batches)
    for each in batches:
        is_seen &= len(each.weights) == len(each.forwards) and all(ok for _, ok in each.weights)
        trained = [weights[weights > 0] for weights, _ in each.weights]
        n_tokens = sum(map(len, trained))
        is_seen &= n_tokens > 0
        total = sum(float(weights.sum()) for weights in trained)
        steps[each.step].append((total / max(n_tokens, 1), n_tokens))
    apart = told = 0.0
    for step in steps.values():
        weights, counts = [weight for weight, _ in step], [float(n) for _, n in step]
        if over_ranks:
            weights, counts = _of_ranks(weights), _of_ranks([sum(counts)])
        apart = max(apart, max(weights) / min(weights) - 1) if min(weights) > 0 else math.inf
        told = max(told, max(counts) / max(min(counts), 1) - 1)
    is_seen = all_agree(is_seen) if over_ranks else is_seen
    return apart if is_seen and told > _TOLD else math.inf


def _of_ranks(values: list[float]) -> list[float]:
    # The largest and the smallest that ranks have. Positive floats of 32 bits are in the order of
    # their bits.
    bits = [struct.unpack("i", struct.pack("f", each(values)))[0] for each in (max, min)]
    largest, smallest = largest_of_ranks([bits[0], -bits[1]])
    return [struct.unpack("f", struct.pack("i", each))[0] for each in (largest, -smallest)]


def token_weights(logits: Any, gradient: Any, real: Any) -> tuple[Any, bool]:
    """Return ((rows, width) weights of tokens in a cross-entropy of logits, whether only real ones
    have some, those of a row the same). The gradient of the logits of a token is its weight times
    (its probabilities, less 1 at the label).
    """
    import torch

    weights = torch.zeros(logits.shape[:2])
    for row in range(len(logits)):  # one by one, since a vocabulary may be large
        least, label = gradient[row].float().min(-1)
        chance = logits[row].float().softmax(-1).gather(-1, label[:, None])[:, 0]
        weights[row] = (-least / (1 - chance).clamp(min=1e-6)).cpu()
    is_real = torch.ones_like(weights, dtype=torch.bool)
    if real is not None:
        is_real = torch.as_tensor(real).reshape(weights.shape)
    rows = [row[row > 0] for row in weights]
    is_even = all(
        float(row.max() - row.min()) <= SAME * float(row.max()) for row in rows if len(row)
    )
    return weights, is_even and not bool((weights[~is_real] > 0).any())
