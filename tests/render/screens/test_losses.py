"""What is lost and repeated stands on the first screen, with the numbers of the batches."""

import re

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler
from batchstat.cli.streams import console, render
from batchstat.render.screens.comparison import comparison_screen
from tables import in_turn

LENGTHS = np.random.default_rng(4).integers(2, 90, 203)
SETTINGS = {
    "static:batch_size=8": {"drop_last": True, "world_size": 8, "distribute": "samples"},
    "bucketed:batch_size=8": {"drop_last": True, "world_size": 3, "remainder": "drop"},
    "token-budget": {"drop_last": True, "order": "file", "tokens_per_batch": 400},
    "packed": {"remainder": "drop", "world_size": 4, "tokens_per_batch": 300},
    "boundaries:buckets=4,leftovers=drop": {"tokens_per_batch": 400},
    "fairseq": {"tokens_per_batch": 900, "drop_last": True},
    "hf-group-by-length": {"drop_last": True, "world_size": 3},
    "lhotse": {"drop_last": True, "tokens_per_batch": 400},
    "static": {"overflow": "drop", "max_length": 60, "batch_size": 4},
    "fixed": {"max_length": 50, "world_size": 4, "batch_size": 4},
}


def shown(comparison: batchstat.Comparison) -> str:
    screen = comparison_screen(comparison, lambda change: change.row.label)
    return " ".join(render(screen, console(plain=True)).split())


def dropped_in(spec: str, epoch: int, settings: dict[str, object]) -> set[int]:
    ranks = range(settings.get("world_size", 1))
    seen = {
        record
        for rank in ranks
        for batch in BatchSampler(LENGTHS, spec, rank=rank, epoch=epoch, **settings).batches()
        for record in batch.records
    }
    return set(range(len(LENGTHS))) - seen


@in_turn("spec", SETTINGS)
def test_losses_are_those_of_the_batches(spec):
    """What no batch of an epoch holds, and how much of it the next epoch does not hold either."""
    settings = SETTINGS[spec]
    made = batchstat.compare(LENGTHS, strategies=spec, **settings)
    row, text = made.current, shown(made)
    dropped = dropped_in(spec, 0, settings)
    again = len(dropped & dropped_in(spec, 1, settings))
    assert (row.counts.dropped_samples, row.dropped_again or 0) == (len(dropped), again)
    if dropped:
        per = " per bucket" if spec.startswith("boundaries") else ""
        share = f"{100 * row.counts.dropped_ratio:.2f}% of the tokens"
        then = f"{again} of them in the next epoch too" if again else "none of them in the"
        then = "the same in every epoch" if again == len(dropped) else then
        assert f"losses {len(dropped)} of 203 samples dropped{per}, {share}, {then}" in text
    if row.counts.truncated_samples:
        assert f"{row.counts.truncated_samples} samples truncated, " in text
    repeated = row.counts.duplicated_samples
    assert (f"{repeated} of {row.counts.samples} samples repeated, " in text) == bool(repeated)


def test_of_many_rows_those_that_matter_are_said():
    made = batchstat.compare(LENGTHS, current="static:batch_size=8", world_size=5, max_length=70)
    text = shown(made)
    [cut] = re.findall(r"losses (\d+) samples truncated, ([\d.]+)% of the tokens", text)
    counts = made.current.counts
    assert cut == (str(counts.truncated_samples), f"{100 * counts.truncated_ratio:.2f}")
    repeated = counts.duplicated_samples
    assert f"static:batch_size=8: {repeated} of {counts.samples} samples repeated" in text
    assert " repeated " in text.partition("●")[0]  # a column, since rows differ


def test_nothing_is_said_of_nothing():
    assert "losses" not in shown(batchstat.compare(LENGTHS, batch_size=7))


def test_a_larger_batch_is_not_called_the_same_memory():
    """It fits the budget, which is more than the setup of today takes."""
    made = batchstat.compare(
        LENGTHS, current="static:batch_size=4", strategies=["token-budget"], tokens_per_batch=2000
    )
    star, now = made.changes.star.row.counts, made.current.counts
    assert star.max_batch_tokens > 1.1 * now.max_batch_tokens
    words = f"largest batch {star.max_batch_tokens:,} tokens instead of {now.max_batch_tokens:,}"
    assert words in shown(made)


@pytest.mark.parametrize("current", ["static:batch_size=64", "token-budget:tokens_per_batch=7000"])
def test_advice_on_the_budget_names_a_number_that_works(current):
    rows = ["bucketed:batch_size=64", "packed:max_length=90"]
    given = {"current": current, "strategies": rows}
    made = batchstat.compare(LENGTHS, tokens_per_batch=1000, **given)
    assert made.changes.best is None
    [needed, named] = re.findall(r"set --tokens-per-batch (\d+), which (\S+) needs", shown(made))[0]
    assert named == current
    again = batchstat.compare(LENGTHS, tokens_per_batch=int(needed), **given)
    assert again[named].counts.over_budget_batches == 0
    assert again.changes.current_fits
    below = batchstat.compare(LENGTHS, tokens_per_batch=int(needed) - 1, **given)
    assert not below.changes.current_fits
