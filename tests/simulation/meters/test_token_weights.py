"""Trained tokens of steps and their weights, against gradients computed token by token."""

from collections import defaultdict
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pandas as pd
import pytest

import batchstat
from batchstat import BatchSampler, InputError, Settings
from batchstat.planning.rules import LOSSES
from batchstat.simulation.compare.compare import simulate
from tables import in_pairs

RNG = np.random.default_rng(8)
SIZES = RNG.integers(1, 50, 120)
MASKS = [RNG.random(size) < share for size, share in zip(SIZES, RNG.random(120), strict=True)]
LABELS = RNG.choice(["a", "b", "b", None], 120)
SETTINGS = {"tokens_per_batch": 150, "max_length": 35, "read_ahead": 40, "seed": 2}
STRATEGIES = ["static", "token-budget", "packed", "packed:method=wrapped", "padding-free", "asym"]


@pytest.fixture(scope="module")
def profile() -> batchstat.Profile:
    rows = {
        "ids": [[1] * size for size in SIZES],
        "mask": [mask.tolist() for mask in MASKS],
        "label": LABELS,
    }
    return batchstat.profile(
        pd.DataFrame(rows), tokens_column="ids", trained_column="mask", label_column="label"
    )


def steps_of(profile, strategy: str, **settings) -> list[list[list]]:
    """Every rank's batches of each step, as the sampler yields them."""
    ranks = [
        list(BatchSampler(profile, strategy, rank=rank, **settings).batches())
        for rank in range(settings["world_size"])
    ]
    last = max(batches[-1].step for batches in ranks)
    return [[[b for b in mine if b.step == step] for mine in ranks] for step in range(last + 1)]


def rows_of(batch) -> list[list[list[tuple[int, int]]]]:
    """The trained tokens of each sample of each row, as (record, position)."""
    parts = [
        [(i, at) for at in range(start + 1, stop) if MASKS[i][at]]
        for i, start, stop in zip(batch.records, batch.starts, batch.stops, strict=True)
    ]
    ends = np.cumsum([0, *batch.rows])
    return [parts[a:b] for a, b in pairwise(ends)]


def gradients(step: list[list], loss: str, divided_by: int | None) -> list[tuple[float, int]]:
    """What backward and an average over ranks make of each token's loss: gradient and record.

    If the loss of token i is theta_i, the derivative by theta_i is its gradient. Means are divided
    by a number, or by that of the rank's batches in the step.
    """
    ranks = len(step)
    every = sum(len(part) for mine in step for b in mine for row in rows_of(b) for part in row)
    found = []
    for mine in step:
        of_rank = sum(len(part) for b in mine for row in rows_of(b) for part in row)
        for batch in mine:
            rows = rows_of(batch)
            in_batch = sum(len(part) for row in rows for part in row)
            by = divided_by or len(mine)
            for row in rows:
                in_row = sum(map(len, row))
                for record, _ in chain.from_iterable(row):
                    if loss == "mean-per-batch":
                        gradient = 1 / in_batch / by
                    elif loss == "axolotl":
                        gradient = 1 / in_batch / len(mine)
                    elif loss == "sequence-mean":
                        gradient = 1 / in_row / len(rows) / by
                    elif loss == "num-items-per-rank":
                        gradient = 1 / of_rank
                    else:
                        gradient = ranks / every
                    found.append((gradient / ranks, record))
    return found


@in_pairs(
    loss=[name for name in LOSSES if name != "unknown"],
    ranks_and_batches=[(1, 1), (1, 3), (3, 2)],
    strategy=STRATEGIES,
)
def test_weights_are_gradients_against_one_mean(profile, strategy, ranks_and_batches, loss):
    world_size, accumulation = ranks_and_batches
    settings = {
        **SETTINGS,
        "world_size": world_size,
        "gradient_accumulation_steps": accumulation,
        "remainder": "uneven",
        "loss": loss,
    }
    row = simulate(profile, strategy, Settings(**settings)).row
    found = row.trained
    weights, records, per_step, per_rank = [], [], [], []
    for step in steps_of(profile, strategy, **settings):
        tokens = gradients(step, loss, None if strategy == "asym" else accumulation)
        weights += [gradient * len(tokens) for gradient, _ in tokens]
        records += [record for _, record in tokens]
        per_step.append(len(tokens))
        per_rank += [sum(len(p) for b in mine for r in rows_of(b) for p in r) for mine in step]
    assert found.tokens == len(weights) == sum(per_step)
    ranked = sorted(weights)
    for value, percent in ((found.weights.p5, 5), (found.weights.p95, 95)):
        assert value == pytest.approx(ranked[-(-len(ranked) * percent // 100) - 1], rel=1e-12)
    for amounts, numbers in ((found.per_step, per_step), (found.per_rank, per_rank)):
        assert (amounts.min, amounts.max) == (min(numbers), max(numbers))
        assert (amounts.mean, amounts.std) == pytest.approx((np.mean(numbers), np.std(numbers)))
    by_class = defaultdict(list)
    for weight, record in zip(weights, records, strict=True):
        by_class[LABELS[record]].append(weight)
    classes = {each.label: each.weight for each in found.weights.classes}
    assert classes == pytest.approx({label: np.mean(each) for label, each in by_class.items()})


def test_an_unknown_loss_has_counts_and_no_weights(profile):
    known, unknown = (
        simulate(profile, "static", Settings(**SETTINGS, loss=loss)).row.trained
        for loss in ("token-sum", "unknown")
    )
    assert known.weights is not None
    assert unknown == replace(known, weights=None)


@pytest.mark.parametrize("strategy", ["static", "token-budget"])
def test_tenths_are_of_samples_by_length(profile, strategy):
    settings = {**SETTINGS, "world_size": 2, "loss": "mean-per-batch"}
    found = simulate(profile, strategy, Settings(**settings)).row.trained.weights
    entries, lengths = [], []
    for step in steps_of(profile, strategy, **settings):
        for mine in step:
            for batch in mine:
                count = len(gradients(step, "mean-per-batch", 1))
                own = sum(len(part) for row in rows_of(batch) for part in row)
                for (part,), start, stop in zip(
                    rows_of(batch), batch.starts, batch.stops, strict=True
                ):
                    lengths.append(stop - start)
                    entries.append((len(part), count / own / 2 if own else 0))
    tenth = -(-len(lengths) // 10)
    short, long = sorted(lengths)[tenth - 1], sorted(lengths)[-tenth]
    for value, kept in (
        (found.shortest_tenth, [e for e, n in zip(entries, lengths, strict=True) if n <= short]),
        (found.longest_tenth, [e for e, n in zip(entries, lengths, strict=True) if n >= long]),
    ):
        tokens = sum(count for count, _ in kept)
        assert value == pytest.approx(sum(count * w for count, w in kept) / tokens)
    assert found.shortest_tenth > 1 > found.longest_tenth


def test_batches_and_samples_without_a_trained_token_are_counted():
    rows = {"ids": [[1] * 4] * 6, "mask": [[0, 0, 1, 1], [1, 0, 0, 0], [0] * 4] * 2}
    profile = batchstat.profile(pd.DataFrame(rows), tokens_column="ids", trained_column="mask")
    row = batchstat.compare(profile, strategies="static", batch_size=1, order="file")["static"]
    assert (row.trained.tokens, row.trained.untrained_samples) == (4, 4)
    assert row.trained.untrained_batches == 4
    assert (row.trained.per_step.min, row.trained.per_step.max) == (0, 2)
    nothing = {**rows, "mask": [[1, 0, 0, 0]] * 6}
    profile = batchstat.profile(pd.DataFrame(nothing), tokens_column="ids", trained_column="mask")
    row = batchstat.compare(profile, strategies="static", batch_size=1)["static"]
    assert row.trained.weights is None


def test_trained_tokens_of_a_subsample():
    """Each sample has as many as its length tells, but for one that is not predicted."""
    lengths = np.random.default_rng(2).integers(2, 90, 60_000)
    frame = pd.DataFrame({"n": lengths, "trained": lengths // 2})
    counted = batchstat.profile(frame, length_column="n", trained_column="trained")
    found = batchstat.compare(counted, strategies="static", subsample=0.5, batch_size=4)
    row = found["static"]
    assert row.counts.samples == found.subsample.samples < 60_000
    share = row.trained.tokens / row.counts.real_tokens
    assert share == pytest.approx((lengths // 2).sum() / lengths.sum(), abs=0.005)


def test_weights_are_for_those_who_know_or_ask(profile):
    assert batchstat.compare(profile.lengths)["static"].trained is None
    asked = batchstat.compare(profile.lengths, loss="mean-per-batch", **SETTINGS)["static"]
    assert asked.trained.tokens == np.maximum(np.minimum(SIZES, 35) - 1, 0).sum()
    known = batchstat.compare(profile, **SETTINGS)
    assert known.basis.loss == "mean-per-batch"
    current = {"hf-trainer": "num-items-in-batch", "trl": "trl", "axolotl": "axolotl"}
    for name, loss in current.items():
        assert batchstat.compare(profile, current=name, **SETTINGS).basis.loss == loss


def test_what_needs_trained_tokens_says_where_they_come_from(profile):
    with pytest.raises(InputError, match=r"balance_by=trained needs to know .*with prompt_column"):
        batchstat.compare(profile.lengths, balance_by="trained")
