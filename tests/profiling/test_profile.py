import io
import json
import os
import re
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import batchstat
from batchstat.documents.base import to_text
from batchstat.documents.profile import profile_document
from batchstat.documents.schema import schema
from batchstat.lengths import max_length
from batchstat.lengths.stats import LengthStats, log_edges
from batchstat.profiling.parquet import load_profile, save_lengths
from batchstat.profiling.profile import TokenizerFacts
from batchstat.profiling.staleness import changes
from conftest import SAMPLE_DATA, check_schema

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

LENGTHS = st.lists(st.integers(0, 5000), min_size=1, max_size=300)


@given(lengths=LENGTHS)
def test_statistics_are_those_of_numpy(lengths):
    stats = LengthStats.of(np.array(lengths))
    assert (stats.count, stats.sum) == (len(lengths), sum(lengths))
    assert (stats.min, stats.max) == (min(lengths), max(lengths))
    assert stats.mean == pytest.approx(np.mean(lengths))
    assert stats.std == pytest.approx(np.std(lengths))
    for thousandths in (1, 500, 900, 950, 990, 999, 1000):
        share = thousandths / 1000
        least = min(
            x for x in lengths if sum(y <= x for y in lengths) * 1000 >= thousandths * len(lengths)
        )
        assert stats.percentile(thousandths) == least, share


@given(lengths=LENGTHS, limit=st.integers(0, 5000))
def test_what_a_limit_cuts_is_counted(lengths, limit):
    above = [length - limit for length in lengths if length > limit]
    assert LengthStats.of(np.array(lengths)).above(limit) == (len(above), sum(above))


@given(lengths=LENGTHS, per_octave=st.sampled_from([1, 4]))
def test_the_histogram_holds_every_length_once(lengths, per_octave):
    stats = LengthStats.of(np.array(lengths))
    edges = log_edges(stats.min, stats.max, per_octave)
    assert list(edges) == sorted(set(edges))
    assert edges[0] <= stats.min
    assert stats.max < edges[-1]
    counts = stats.histogram(edges).counts
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        assert count == sum(low <= length < high for length in lengths)


CSV = "label,text\r\nspam,buy now\r\nham,see you\r\n,no class\r\nham,\r\nham,later then\r\n"


@pytest.fixture
def labelled(tmp_path: Path) -> batchstat.Profile:
    path = tmp_path / "mail.csv"
    path.write_bytes(CSV.encode())
    return batchstat.profile(path, label_column="label")


def test_a_profile_counts_classes_and_what_it_skipped(labelled):
    assert labelled.records.tolist() == [0, 1, 2, 4]
    assert labelled.corpus.skipped == {"blank": 1, "short": 0}
    assert [(c.label, c.count, c.share) for c in labelled.classes] == [
        ("ham", 2, 0.5),
        (None, 1, 0.25),
        ("spam", 1, 0.25),
    ]
    found = labelled.to_frame()["label"].astype(object)
    assert found.where(found.notna(), None).tolist() == ["spam", "ham", None, "ham"]
    ham = labelled.lengths_of("ham")
    assert labelled.classes[0].mean_length == pytest.approx(ham.mean())


def test_a_profile_fits_its_schema(labelled):
    record = json.loads(to_text(profile_document(labelled)))
    check_schema(record, "profile")
    described = schema("profile")["properties"]
    assert set(record) == set(described)
    assert set(record["lengths"]) == set(described["lengths"]["properties"])
    assert set(record["tokenizer"]) == set(described["tokenizer"]["anyOf"][0]["properties"])
    assert set(record["corpus"]) == set(described["corpus"]["properties"])


def test_what_is_saved_is_loaded_and_holds_no_text(labelled, tmp_path):
    with (tmp_path / "lengths.parquet").open("wb") as file:
        save_lengths(labelled, file)
    loaded = load_profile(tmp_path)
    assert profile_document(loaded) == profile_document(labelled)
    assert loaded.to_frame().equals(labelled.to_frame())
    table = pq.read_table(tmp_path / "lengths.parquet")
    assert table.column_names == ["record", "length", "label"]
    assert b"buy now" not in (tmp_path / "lengths.parquet").read_bytes()
    meta = json.loads(table.schema.metadata[b"batchstat"])
    assert (meta["tokenizer"]["name"], meta["tokenizer"]["max_length"]) == ("builtin", 512)


def test_a_missing_label_survives_saving(tmp_path):
    path = tmp_path / "mail.jsonl"
    path.write_text('{"text": "a", "label": null}\n{"text": "b", "label": 1}\n')
    profile = batchstat.profile(path, label_column="label")
    with (tmp_path / "lengths.parquet").open("wb") as file:
        save_lengths(profile, file)
    assert [c.label for c in load_profile(tmp_path).classes] == [None, "1"]


def test_equal_runs_save_equal_bytes_but_for_created(tmp_path):
    path = tmp_path / "mail.csv"
    path.write_bytes(CSV.encode())
    saved = []
    for _ in range(2):
        profile = batchstat.profile(path, label_column="label")
        object.__setattr__(profile, "created", "2026-01-01T00:00:00+00:00")
        file = io.BytesIO()
        save_lengths(profile, file)
        saved.append((file.getvalue(), to_text(profile_document(profile))))
    assert saved[0] == saved[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no profile in"),
        (b"", "is not a profile"),
        (b"PAR1 this is no parquet", "is not a profile"),
    ],
)
def test_a_folder_without_a_readable_profile(tmp_path, content, message):
    if content is not None:
        (tmp_path / "lengths.parquet").write_bytes(content)
    with pytest.raises(batchstat.InputError, match=message):
        load_profile(tmp_path)


def test_a_profile_of_another_schema_is_refused(labelled, tmp_path, monkeypatch):
    monkeypatch.setattr("batchstat.profiling.parquet.SCHEMA", "batchstat.profile/0")
    with (tmp_path / "lengths.parquet").open("wb") as file:
        save_lengths(labelled, file)
    monkeypatch.undo()
    with pytest.raises(batchstat.InputError, match="has schema batchstat.profile/0"):
        load_profile(tmp_path)


def test_staleness_is_of_content_and_not_of_times(labelled, tmp_path):
    path = tmp_path / "mail.csv"
    assert list(changes(labelled)) == []
    path.write_bytes(CSV.encode())
    assert list(changes(labelled)) == []
    path.write_bytes(CSV.replace("spam", "SPAM").encode())
    assert list(changes(labelled)) == [f"{path.as_posix()} has changed since it was profiled"]
    path.write_bytes(CSV.encode() + b"ham,more\r\n")
    assert "has changed" in next(changes(labelled))
    path.unlink()
    assert "can no longer be read" in next(changes(labelled))


@pytest.mark.skipif(os.name == "nt", reason="Windows does not stamp a moved file")
def test_an_older_file_moved_into_place_is_noticed(labelled, tmp_path):
    other = tmp_path / "other.csv"
    other.write_bytes(CSV.replace("spam", "SPAM").encode())
    os.utime(other, (0, 0))
    other.replace(tmp_path / "mail.csv")
    assert "has changed" in next(changes(labelled))


def test_several_files_are_one_corpus(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n')
    profile = batchstat.profile([tmp_path / "a.txt", tmp_path / "b.jsonl"])
    assert profile.records.tolist() == [0, 2, 3]
    assert len(profile.corpus.sources) == 2


@given(lengths=LENGTHS, stated=st.none() | st.integers(1, 5000))
def test_candidates_for_a_max_length(lengths, stated):
    """Held against a plain loop over the lengths."""
    profile = profile_of(lengths, stated)
    candidates = profile.truncation
    limits = [each.max_length for each in candidates]
    assert limits == sorted(set(limits))
    assert len(limits) <= 14
    for each in candidates:
        beyond = [length - each.max_length for length in lengths if length > each.max_length]
        assert (each.samples, each.tokens) == (len(beyond), sum(beyond))
    fits = stated is None or stated >= max(lengths)
    assert limits[-1] >= max(lengths) if fits else limits[-1] == stated
    usual = limits if fits else limits[:-1]
    assert all(limit % 8 == 0 or limit & (limit - 1) == 0 for limit in usual)
    usual = [length for length in lengths if length <= 4 * profile.stats.percentile(990)]
    if len(lengths) - len(usual) > max(1, len(lengths) // 500):
        usual = lengths
    good = [
        each.max_length
        for each in candidates
        if each.samples <= len(lengths) / 100
        and sum(max(length - each.max_length, 0) for length in usual) <= sum(usual) / 200
    ]
    assert profile.suggested_max_length == (good[0] if good else None)


def test_what_a_max_length_costs_is_what_random_batches_compute():
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(4, 1, 3_000).astype(int).clip(1, 2_000)
    profile = profile_of(lengths.tolist(), None)
    drawn = lengths[rng.integers(0, len(lengths), (200_000, 8))]
    longest = drawn.max(axis=1)
    for each in profile.truncation:
        measured = np.minimum(longest, each.max_length).mean() / longest.mean()
        assert each.compute == pytest.approx(measured, rel=0.01)
    assert profile.truncation[-1].compute == 1


def test_one_sample_far_longer_than_all_others_is_named(run, tmp_path):
    """A public set of 300 chats, of which one has 9 % of the tokens."""
    lengths = [400 + 4 * i for i in range(299)]
    lengths.insert(212, 40_000)
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in lengths))
    result = run("profile", tmp_path / "a.jsonl", "--length-column", "n")
    words = " ".join(result.stdout.split())
    assert "record 212 alone has 11.8% of the tokens: without it 2,048 loses nothing" in words
    report = json.loads((tmp_path / "batchstat-results" / "profile.json").read_text())
    assert report["suggested_max_length"] == 2_048
    finer = {3 * 2**k for k in range(10, 14)}
    powers = {2**k for k in range(10, 16)}
    candidates = [each["max_length"] for each in report["truncation"]]
    assert candidates == sorted({*powers, *finer, 3 * 2**14})


def test_a_maximum_that_truncates_too_much_is_no_suggestion():
    profile = profile_of([100] * 9 + [600], 512)
    assert profile.suggested_max_length is None
    assert profile.truncation[-1].max_length == 512


def profile_of(lengths: list[int], stated: int | None) -> batchstat.Profile:
    """A profile of these lengths whose tokenizer states a maximum."""
    array = np.array(lengths)
    profile = batchstat.profile(pd.DataFrame({"n": array}), length_column="n")
    if stated is None:
        return profile
    tokenizer = TokenizerFacts("words", "sha256:0", 0, stated, "tokenizers")
    return replace(profile, tokenizer=tokenizer)


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), size=st.integers(1, 7))
def test_the_padding_of_usual_batches_is_that_of_all_draws(lengths, size):
    """Of the mean width over every order of the samples, of which a batch has the first ones."""
    widths = [max(order[:size]) for order in permutations(lengths)]
    total = len(lengths) * sum(widths) / len(widths)
    expected = 1 - sum(lengths) / total if total else 0
    with patch.object(max_length, "USUAL_BATCH_SIZE", size):
        found = max_length.usual_padding(LengthStats.of(np.array(lengths)))
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_padding_of_usual_batches_is_about_that_of_compare(run):
    """The line that follows shows one draw of what was said of all."""
    shown = run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots").stdout
    line = next(line for line in shown.splitlines() if line.startswith("padding  "))
    command = shown.splitlines()[-1].removeprefix("next     batchstat ")
    assert command == "compare --batch-size 8"
    rows = run(*command.split(), "--no-plots").stdout.splitlines()
    static = next(line for line in rows if line.startswith("● static "))
    shown_first, shown_then = (float(re.search(r"([\d.]+)%", each)[1]) for each in (line, static))
    assert abs(shown_first - shown_then) <= 1.5


def test_an_interactive_session_sees_the_progress(monkeypatch, capsys, tmp_path):
    """As lines where standard error is not a terminal, as in a notebook."""
    from batchstat.profiling import progress

    (tmp_path / "a.txt").write_text("some words\n" * 5000)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0)
    batchstat.profile(tmp_path / "a.txt")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    batchstat.profile(tmp_path / "a.txt")
    assert "counting: 55.0 kB of 55.0 kB" in capsys.readouterr().err
    batchstat.profile(tmp_path / "a.txt", on_progress=lambda _: None)
    assert capsys.readouterr().err == ""
