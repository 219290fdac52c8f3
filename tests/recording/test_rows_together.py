"""Samples that are made of rows: pairs and views, which no batch parts."""

from collections import Counter
from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import batchstat
from batchstat.lengths.sample_rows import SampleRows
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.parquet import read_file, save_lengths
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recording import RecordedBatch
from batchstat.recording.rows_together import rows_together
from batchstat.render.screens.preflight import preflight_screen
from batchstat.simulation.meters.measure import measure

STRATEGIES = ("static", "bucketed", "token-budget", "fixed", "regrouped:of=static")


def make_profile(rows, forwards):
    """The profile of samples that are made of these rows."""
    longest = pd.DataFrame({"tokens": rows.max(axis=1)})
    profile = batchstat.profile(longest, length_column="tokens")
    return replace(profile, rows=SampleRows(rows, forwards, "pair"))


def shown(report):
    """The screen, on one line."""
    console = Console(width=100, file=StringIO())
    console.print(preflight_screen(report, lambda change: change.line))
    return " ".join(console.file.getvalue().split())


def plain_numbers(batches, rows, forwards, multiple, width=None):
    """What forwards compute of batches of sample numbers, counted in loops."""
    counts = Counter()
    for batch in batches:
        first = 0
        for n in forwards:
            lengths = [rows[sample][first + j] for sample in batch for j in range(n)]
            first += n
            longest = -(-max(lengths) // multiple) * multiple
            counts["rows"] += len(lengths)
            counts["total_tokens"] += len(lengths) * (longest if width is None else width)
            counts["real_tokens"] += sum(lengths)
            counts["batches"] += 1
        counts["samples"] += len(batch)
    return counts


@pytest.mark.parametrize("spec", STRATEGIES)
@pytest.mark.parametrize("forwards", [(2,), (1, 1), (1, 2), (3,)])
def test_samples_of_rows_as_loops_count_them(spec, forwards):
    rng = np.random.default_rng(sum(forwards))
    rows = rng.integers(1, 90, (53, sum(forwards)))
    profile = make_profile(rows, forwards)
    inputs = resolve_inputs(profile)
    settings = batchstat.Settings(
        batch_size=4, pad_to_multiple_of=8, gradient_accumulation_steps=2, max_length=96
    )
    request = StrategySpec.parse(spec).request(inputs.resolve(settings))
    counts = measure(request, make_shares(inputs.samples, request.settings)).counts
    sampler = batchstat.BatchSampler(
        profile,
        spec,
        batch_size=4,
        pad_to_multiple_of=8,
        gradient_accumulation_steps=2,
        max_length=96,
    )
    batches = [list(batch) for batch in sampler]
    assert sorted(sample for batch in batches for sample in batch) == list(range(53))
    told = plain_numbers(batches, rows.tolist(), forwards, 8, 96 if spec == "fixed" else None)
    assert {name: getattr(counts, name) for name in told} == told
    assert counts.dropped_tokens == counts.duplicated_tokens == 0
    assert counts.visited_tokens == rows.sum()
    if spec == "token-budget":  # the budget is of rows: that of 4 of the widest samples
        assert counts.tokens_per_batch == 4 * max(forwards) * 96
        assert counts.max_batch_tokens <= counts.tokens_per_batch
    assert counts.max_samples_per_batch == max(map(len, batches))


def test_a_profile_keeps_rows_in_its_file(tmp_path):
    profile = make_profile(np.array([[3, 9], [4, 2]]), (1, 1))
    with (tmp_path / "lengths.parquet").open("wb") as file:
        save_lengths(profile, file)
    read = read_file(tmp_path / "lengths.parquet").rows
    assert read.lengths.tolist() == [[3, 9], [4, 2]]
    assert (read.forwards, read.kind) == ((1, 1), "pair")


def batch_of(*rows, numbers=None, digests=(), is_of_one=False):
    """A batch whose forwards have these numbers of rows."""
    parts = [ReadBatch(n, 5) for n in rows]
    return RecordedBatch(step=0, parts=parts, numbers=numbers, digests=digests, is_of_one=is_of_one)


@pytest.mark.parametrize(
    ("batch", "kind", "forwards"),
    [
        (batch_of(4, numbers=[[7, 8]]), "", (2,)),
        (batch_of(4, numbers=[[7, 7, 8, 8]]), "", (2,)),
        (batch_of(3, numbers=[[7, 7, 8]]), "", None),  # drawn again
        (batch_of(2, numbers=[[7, 8]]), "", None),
        (batch_of(2, 2, numbers=[[7, 8], [7, 8]]), "", (1, 1)),
        (batch_of(2, 2, numbers=[[7, 8], [9, 6]]), "", None),  # two batches of a loader
        (batch_of(2, 4, numbers=[[7, 8], [7, 8]], is_of_one=True), "", (1, 2)),
        (batch_of(2, 2, digests=["ab", "cd"]), "", None),
        (batch_of(2, 2, digests=["ab", "cd"], is_of_one=True), "", (1, 1)),
        (batch_of(2, 2, digests=["ab", "ab"]), "", (1, 1)),
        (batch_of(4, digests=["abab"]), "", (2,)),
        (batch_of(4, digests=["abcd"]), "pair", (2,)),
        (batch_of(4, digests=["abcd"]), "", None),
    ],
)
def test_which_rows_belong_together(batch, kind, forwards):
    found = rows_together([batch, batch], kind)
    assert (None if found is None else found[0].forwards) == forwards


def test_pairs_of_a_loader_stand_in_halves():
    def batch(chosen, rejected):
        ids = np.zeros((len(chosen) * 2, 12), int)
        for row, length in enumerate([*chosen, *rejected]):
            ids[row, :length] = 5
        return {"input_ids": ids, "attention_mask": (ids != 0).astype(int)}

    class Loader(list):
        batch_size = 2

    report = batchstat.preflight(Loader([batch([3, 9], [12, 4]), batch([5], [6])]))
    assert report.profile.rows.lengths.tolist() == [[3, 12], [9, 4], [5, 6]]
    assert report.profile.rows.kind == "view"
    assert report.samples_per_step == 1.5
    assert report.simulation.row.counts.rows == 6


def test_rows_without_a_token_are_no_samples(monkeypatch):
    import batchstat.recording.collated as reading

    def read(batch, pad_token_id):
        found = reading_before(batch, pad_token_id)
        found.real = [row if any(row) else [] for row in found.real]
        return found

    reading_before = reading.read_batch
    monkeypatch.setattr(reading, "read_batch", read)
    mask = np.array([[1] * 10, [1] * 5 + [0] * 5, [0] * 10, [0] * 10])
    batch = {"input_ids": np.ones((4, 10), int), "attention_mask": mask}
    report = batchstat.preflight([batch, batch])
    counts = report.simulation.row.counts
    assert (counts.samples, counts.rows, counts.total_tokens) == (4, 8, 80)
    assert "padding/empty-rows" in [finding.id for finding in report.warnings]
    assert "first Leave out rows without a token where they are made: 4 of 8 rows, 2.00x" in shown(
        report
    )
    with pytest.raises(batchstat.InputError, match="no real token"):
        batchstat.preflight([{**batch, "attention_mask": mask * 0}])
