"""The times of a recorded run as a calibration."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import InputError
from batchstat.recording.recorded_times import recorded_calibration
from batchstat.recording.recording import read_recording
from conftest import Cli
from tables import in_turn
from written import batch, begin, write

PER_BATCH, PER_TOKEN, PER_PAIR, PER_STEP = 2e-3, 3e-5, 4e-7, 5e-3
Seconds = Callable[[int, int], float]
"""The seconds of a batch, by its rows and its width."""


def planted(rows: int, width: int) -> float:
    return PER_BATCH + PER_TOKEN * rows * width + PER_PAIR * rows * width**2


def lengths_of(number: int, seed: int = 0, rows: int = 4, least: int = 8) -> list[list[int]]:
    """Batches of different lengths."""
    draw = np.random.default_rng(seed)
    return [draw.integers(least, most, rows).tolist() for most in draw.integers(20, 400, number)]


def lines(
    batches: list[list[int]],
    seconds: Seconds = planted,
    rank: int = 0,
    world_size: int = 1,
    per_step: int = 1,
    ends: list[float] | None = None,
) -> Iterator[dict[str, Any]]:
    """The lines of a rank, whose steps end when all ranks are done."""
    yield begin(rank, world_size)
    at = 0.0
    for place in range(0, len(batches), per_step):
        number = place // per_step
        for turn, lengths in enumerate(batches[place : place + per_step]):
            took = seconds(len(lengths), max(lengths))
            samples = [(place + turn) * 1_000 + i + rank * 100 for i in range(len(lengths))]
            yield batch(number, *lengths, t=[at, at + took], epoch=0, numbers=[samples])
            at += took
        at = at + PER_STEP if ends is None else ends[number]
        yield {"k": "step", "s": number, "t": [at], "by": "SGD"}


def recorded(folder: Path, *files: Iterator[dict[str, Any]], **facts: Any) -> Path:
    return write(folder, *map(list, files), **facts)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("per_step", [1, 3])
def test_what_batches_take_is_found_again(tmp_path, seed, per_step):
    folder = recorded(tmp_path, lines(lengths_of(240, seed), per_step=per_step))
    time = recorded_calibration(read_recording(folder)).time
    assert time is not None
    found = (time.per_batch, time.per_token, time.per_pair, time.per_step)
    assert found == pytest.approx((PER_BATCH, PER_TOKEN, PER_PAIR, PER_STEP), rel=0.02)
    assert time.residual < 0.01


def test_a_batch_in_ten_that_meets_a_stall_does_not_matter(tmp_path):
    draw = np.random.default_rng(1)

    def stalled(rows: int, width: int) -> float:
        noise = draw.normal(1, 0.1) * (8 if draw.random() < 0.1 else 1)
        return planted(rows, width) * max(noise, 0.1)

    calibration = recorded_calibration(
        read_recording(recorded(tmp_path, lines(lengths_of(600), stalled)))
    )
    assert calibration.time is not None
    assert calibration.time.residual < 0.1
    for point in calibration.points:
        own = calibration.seconds(point.shape)
        assert own == pytest.approx(planted(point.rows, point.width), rel=0.15)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("per_shape", [0.0, 0.1])
def test_new_shapes_are_told_from_batches(tmp_path, ranks, per_shape):
    """An H200 takes 0.1 s more for each; all ranks wait for it."""
    numbers = [np.random.default_rng(seed).integers(1, 40, 300) for seed in range(ranks)]
    of_ranks = [[[8 * n] * 4 for n in each.tolist()] for each in numbers]
    seen: list[set[int]] = [set() for _ in of_ranks]
    slowest = []
    for turn in zip(*of_ranks, strict=True):
        widths = [lengths[0] for lengths in turn]
        is_new = any(width not in known for width, known in zip(widths, seen, strict=True))
        for width, known in zip(widths, seen, strict=True):
            known.add(width)
        slowest.append(planted(4, max(widths)) + per_shape * is_new)
    ends = list(np.cumsum(slowest) + PER_STEP * np.arange(1, len(slowest) + 1))
    files = []
    for rank, batches in enumerate(of_ranks):
        waits = iter(slowest)
        files.append(lines(batches, lambda *_, w=waits: next(w), rank, ranks, ends=ends))
    time = recorded_calibration(read_recording(recorded(tmp_path, *files))).time
    assert time is not None
    found = (time.per_batch, time.per_token, time.per_pair, time.per_shape)
    assert found == pytest.approx((PER_BATCH, PER_TOKEN, PER_PAIR, per_shape), rel=0.02)


def test_the_rank_that_computes_most_is_the_one_that_counts(tmp_path):
    """The others wait for it in their backward, and are as slow."""
    both = [lengths_of(240, seed) for seed in (1, 2)]
    slow = [max(planted(4, max(a)), planted(4, max(b))) for a, b in zip(*both, strict=True)]
    ends = list(np.cumsum(slow) + PER_STEP * np.arange(1, len(slow) + 1))
    files = []
    for rank, batches in enumerate(both):
        waits = iter(slow)
        files.append(lines(batches, lambda *_, waits=waits: next(waits), rank, 2, ends=ends))
    time = recorded_calibration(read_recording(recorded(tmp_path, *files))).time
    assert time is not None
    found = (time.per_batch, time.per_token, time.per_pair, time.per_step)
    assert found == pytest.approx((PER_BATCH, PER_TOKEN, PER_PAIR, PER_STEP), rel=0.02)


@pytest.mark.parametrize("per_shape", [0.0, 0.1])
def test_ranks_that_wait_for_each_other_once_in_a_step(tmp_path, per_shape):
    """Its time is that of the rank that computes most, and not of the largest batch of each turn:
    in all but the last batch, no rank waits.
    """
    draw = np.random.default_rng(0)
    files: list[list[dict[str, Any]]] = [[begin(rank, 2)] for rank in range(2)]
    seen: list[set[int]] = [set(), set()]
    at = 0.0
    for number in range(200):
        most = draw.integers(60, 400)
        ends = []
        for rank, lines_of_rank in enumerate(files):
            end = at
            for turn, width in enumerate(8 * draw.integers(1, most // 8, 3)):
                took = planted(4, width) + per_shape * (width not in seen[rank])
                seen[rank].add(width)
                samples = [[number * 100 + turn * 10 + rank * 4 + i for i in range(4)]]
                more = {"meet": True} if turn == 2 else {}
                times = [end, end + took]
                made = batch(number, *[int(width)] * 4, t=times, epoch=0, numbers=samples, **more)
                lines_of_rank.append(made)
                end += took
            ends.append(end)
        at = max(ends) + PER_STEP
        for lines_of_rank in files:
            lines_of_rank[-1]["t"][1] = max(ends)  # its backward waits
            lines_of_rank.append({"k": "step", "s": number, "t": [at], "by": "SGD"})
    recording = read_recording(write(tmp_path, *files))
    assert recording.wait == "step"
    time = recorded_calibration(recording).time
    assert time is not None
    found = (time.per_batch, time.per_token, time.per_pair, time.per_step, time.per_shape)
    planted_times = (PER_BATCH, PER_TOKEN, PER_PAIR, PER_STEP, per_shape)
    assert found == pytest.approx(planted_times, rel=0.05)


def test_an_epoch_takes_what_its_batches_take(tmp_path):
    batches = lengths_of(100)
    folder = recorded(tmp_path, lines(batches))
    compared = batchstat.compare(current=folder, calibration=folder, strategies=["static"])
    took = sum(planted(4, max(lengths)) + PER_STEP for lengths in batches)
    assert compared.current.on_device.seconds == pytest.approx(took, rel=0.02)
    assert not compared.current.on_device.is_extrapolated


def test_its_largest_batch_is_not_extrapolated(tmp_path):
    calibration = recorded_calibration(read_recording(recorded(tmp_path, lines(lengths_of(137)))))
    longest = max(map(max, lengths_of(137)))
    assert (calibration.most_tokens, calibration.widest) == (4 * longest, longest)


def test_the_report_says_what_a_change_saves(tmp_path, cli: Cli):
    folder = recorded(tmp_path, lines(lengths_of(200)))
    code, shown, _ = cli("measure", folder)
    assert code == 0
    result = " ".join(shown.partition("result ")[2].partition("change ")[0].split())
    _, document, _ = cli("measure", folder, "--json")
    saved = json.loads(document)["saved"]
    assert f"An epoch with {saved['label']} takes " in result
    assert f"{saved['before'] / saved['after']:.2f}x faster by the times of this run's" in result
    assert saved["after"] < saved["before"]
    took = sum(planted(4, max(lengths)) + PER_STEP for lengths in lengths_of(200))
    assert saved["before"] == pytest.approx(took, rel=0.02)


def test_a_change_that_saves_padding_and_no_time(tmp_path, cli: Cli):
    """A batch takes as long whatever is in it."""
    folder = recorded(tmp_path, lines(lengths_of(200), lambda *_: 0.01))
    _, shown, _ = cli("measure", folder)
    assert "saves less than 5% of an epoch, by the times of this run's own batches" in " ".join(
        shown.split()
    )
    assert "\nchange" not in shown


def test_a_comparison_by_the_times_of_a_run(tmp_path, cli: Cli, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    recorded(folder, lines(lengths_of(200)))
    monkeypatch.chdir(tmp_path)
    compare = ("compare", "--current", "run", "--calibration", "run", "--no-plots")
    code, shown, aside = cli(*compare)
    assert code == 0, aside
    assert "device   run: cpu, train.py" in shown
    document = json.loads((tmp_path / "batchstat-results/compare.json").read_text())
    facts = document["calibration"]
    assert (facts["file"], facts["model"], facts["dtype"]) == ("run", "train.py", None)
    assert facts["time_residual"] < 0.01


def same_size(number: int) -> list[list[int]]:
    return [[64, 64, 64, 64]] * number


def noisy(rows: int, width: int) -> float:
    return 1e-3 * (1 + rows * width * 7_919 % 13)


@in_turn(
    ("made", "facts", "why"),
    [
        (lines(lengths_of(100)), {"dry_run": True}, "has no times: it was a dry run"),
        (lines(lengths_of(1)), {}, "has no times: fewer than two steps were computed"),
        (lines(lengths_of(20)), {}, "has times of 19 batches after its first step: record at"),
        (lines(same_size(100)), {}, "nearly all batches in .* have about 256 tokens"),
        (lines(lengths_of(100), noisy), {}, "are ±[0-9]+% from what batches of their size should"),
        (iter([begin()]), {}, "nothing was recorded"),
    ],
)
def test_a_run_whose_times_tell_nothing(tmp_path, made, facts, why):
    folder = recorded(tmp_path, made, **facts)
    with pytest.raises(InputError, match=why):
        batchstat.compare([4, 5, 6], calibration=folder)


def test_rows_of_padding_alone_hold_no_samples(tmp_path):
    def made(lengths: list[list[int]]) -> Iterator[dict[str, Any]]:
        for line in lines(lengths):
            if line["k"] == "batch" and line["s"] % 2:
                line["parts"][0]["n"][:3] = [[], [], []]
            yield line

    calibration = recorded_calibration(read_recording(recorded(tmp_path, made(lengths_of(60)))))
    assert {point.samples_per_row for point in calibration.points} == {1}


def test_times_of_several_forwards_are_not_apart(tmp_path):
    made = list(lines(lengths_of(100)))
    for line in made:
        if line["k"] == "batch":
            line["parts"] *= 2
            line["numbers"] *= 2
    with pytest.raises(InputError, match="several forwards"):
        recorded_calibration(read_recording(write(tmp_path, made)))


def test_a_folder_without_a_recording(tmp_path, cli: Cli):
    code, _, aside = cli("compare", "sample_data/corpus.txt", "--calibration", tmp_path)
    assert (code, aside.count("\n")) == (3, 1)
    assert "no recording: name the folder that batchstat run wrote" in aside
