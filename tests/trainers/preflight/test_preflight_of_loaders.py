"""`preflight` of batches that a loader makes, without torch: what is read, printed and refused."""

from itertools import repeat
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import InputError


def batch(*lengths: int, width: int = 0, labels: bool = True) -> dict[str, Any]:
    width = max(width, *lengths)
    keep = np.array([[1] * n + [0] * (width - n) for n in lengths])
    ids = np.arange(1, keep.size + 1).reshape(keep.shape) * keep
    made = {"input_ids": ids, "attention_mask": keep}
    return {**made, "labels": np.where(keep, ids, -100)} if labels else made


BATCHES = [batch(3, 9), batch(5, 5), batch(9)]


def test_the_report_of_an_iterable_is_printed_and_returned(capsys):
    report = batchstat.preflight(BATCHES)
    out, err = capsys.readouterr()
    lines = {line[:8].strip(): line[9:] for line in out.splitlines()}
    assert lines["loader"] == "list · 3 batches were read"
    assert (
        lines["data"] == "5 samples as the script tokenizes them · 31 tokens · 2 end at exactly 9"
    )
    assert lines["padding"] == "16.2% of what is computed · largest batch 18 tokens, in step 1 of 3"
    assert lines["loss"] == "the loop's own: not known"
    assert err == ""
    assert (report.simulation.row.counts.real_tokens, report.total_steps) == (31, 3)
    assert all(line == line.rstrip() for line in out.splitlines())
    batchstat.show(report)
    assert capsys.readouterr().out == out


def test_what_may_not_be_true_is_said_beside_it(capsys):
    batchstat.preflight([batch(2, 4, labels=False)] * 2, steps=1)
    out, err = capsys.readouterr()
    assert "no labels of tokens were seen" in err
    assert "1 step read" in err
    assert "warning" not in out
    carrying = batch(2, 6)
    carrying["labels"] = carrying["input_ids"] + 1
    batchstat.preflight([carrying])
    assert "4 tokens of padding carry loss" in capsys.readouterr().err
    guessed = [{"input_ids": each["input_ids"]} for each in (batch(1, 6), batch(2, 5))]
    batchstat.preflight(guessed)
    assert "what is padding is a guess: token 0" in capsys.readouterr().err


def test_a_width_that_no_row_needs_is_said(capsys):
    report = batchstat.preflight([batch(3, 4, width=12), batch(5, 2, width=12), batch(4, width=12)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "every row is padded to 12" in printed
    assert "the same samples in every step, no more memory pad to the longest row" in printed
    repaired = report.changes.ranked[0].row.counts
    assert (repaired.total_tokens, repaired.batches) == (2 * 4 + 2 * 5 + 4, 3)
    batchstat.preflight([batch(3, 12, width=12), batch(12, 2, width=12)])
    assert "every row is padded" not in capsys.readouterr().out


def test_only_the_first_rank_prints(capsys):
    class Loader(list[Any]):
        sampler = SimpleNamespace(rank=1)

    batchstat.preflight(Loader(BATCHES))
    assert capsys.readouterr().out == ""


def test_steps_are_of_the_optimizer():
    report = batchstat.preflight(
        repeat(BATCHES[0]), steps=4, world_size=2, gradient_accumulation_steps=3
    )
    assert (report.simulation.row.counts.batches, report.steps_per_epoch) == (4 * 2 * 3, 4)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (7, "neither a trainer's configuration, a Trainer nor a loader of batches"),
        ([], "there is no batch"),
        ([{"text": ["a"]}], "batch 0 has no token ids"),
        ([{"input_ids": np.array([[1, 2], [3, 4]])}], "padding unknown"),
        ([BATCHES[0], {"tokens": np.ones((1, 2), int), "lengths": np.array([2])}], "several kinds"),
    ],
)
def test_what_cannot_be_reported_is_one_line(target, message):
    with pytest.raises(InputError, match=message) as caught:
        batchstat.preflight(target)
    assert "\n" not in str(caught.value)
