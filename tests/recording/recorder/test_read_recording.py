"""Recordings as they are read: cut off, of several trainings, of some ranks."""

import json
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import batchstat
from batchstat import InputError
from batchstat.documents.base import to_text
from batchstat.documents.preflight import preflight_document
from batchstat.recording.recorded_batches import batches_of
from batchstat.recording.recorder.log import FORMAT
from batchstat.recording.recorder.read_batches import part_of, read_of
from batchstat.recording.recorder.reading import read_batch, read_parts
from batchstat.recording.recording import read_recording
from batchstat.trainers.preflight.current import training_of_observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.preflight import report_on
from written import batch, begin, step, write


@given(st.data())
def test_what_a_batch_computes_is_read_as_it_was_written(data):
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    names = ["attention_mask", "position_ids", "labels", "decoder_attention_mask"]
    made = {"input_ids": data.draw(numbers(rows, width, 1, 9))}
    for name in data.draw(st.sets(st.sampled_from(names))):
        made[name] = data.draw(numbers(rows, width, 0, 1))
    read = read_batch(made, data.draw(st.sampled_from([None, 1])))
    assert read is not None
    again = read_of(json.loads(json.dumps(part_of(read))))
    kept = {"ids", "real_mask"} | ({"labelled"} if read.decoder is not None else set())
    for name, value in vars(read).items():
        if name not in kept:
            assert getattr(again, name) == value, name


def numbers(rows: int, width: int, least: int, most: int) -> Any:
    row = st.lists(st.integers(least, most), min_size=width, max_size=width)
    return st.lists(row, min_size=rows, max_size=rows).map(np.array)


@given(st.integers(0, 400))
def test_a_last_line_that_was_cut_is_left_out(tmp_path_factory, left_out):
    folder = tmp_path_factory.mktemp("run")
    write(folder, [begin(), batch(0, 3, 5), step(0), batch(1, 2, 7), step(1)])
    [path] = folder.glob("*.jsonl")
    text = path.read_text()
    cut = text[: max(len(text) - left_out, 0)]
    path.write_text(cut)
    found = sum(len(rank.batches) for rank in read_recording(folder).ranks)
    whole = sum('"batch"' in line for line in cut.split("\n")[:-1])
    assert found - whole in (0, 1)  # one more where only the end of its line is cut


def test_ranks_whose_steps_differ_are_said(tmp_path):
    one = [begin(0, 2), batch(0, 3), step(0), batch(1, 3), step(1)]
    other = [begin(1, 2), batch(0, 4), step(0)]
    with pytest.raises(InputError, match=r"different numbers of steps \(rank 0 2, rank 1 1\)"):
        batches_of(read_recording(write(tmp_path, one, other)))


def test_ranks_that_were_not_seen_are_said(tmp_path):
    lines = [begin(1, 4), batch(0, 3, 5), step(0), batch(1, 4, 4), step(1)]
    report = report_on(
        training_of_observed(observe_recording(read_recording(write(tmp_path, lines))), {})
    )
    messages = [warning.message for warning in report.warnings]
    assert any(each.startswith("1 of 4 ranks were recorded") for each in messages)
    assert any("an estimate from 4 recorded rows" in each for each in messages)


def test_the_training_with_the_most_batches_is_described(tmp_path):
    short = [begin(), batch(0, 3), step(0)]
    long = [begin(at=9), batch(0, 3), step(0), batch(1, 4), step(1)]
    recording = read_recording(write(tmp_path, short, long))
    assert (len(recording.ranks[0].batches), recording.others) == (2, 1)


def test_a_sample_is_counted_once_where_its_number_is_known(tmp_path):
    lines = [begin()]
    for place, sizes in enumerate([(2, 3), (4, 5), (1, 2)]):
        made = batch(place, *sizes, 6, epoch=0, numbers=[[2 * place, 2 * place + 1, 9]])
        lines += [made, step(place)]
    report = report_on(
        training_of_observed(observe_recording(read_recording(write(tmp_path, lines))), {})
    )
    assert len(report.samples.profile) == 7
    counts = report.simulation.row.counts
    assert (counts.samples, counts.total_tokens) == (9, 3 * 3 * 6)
    assert counts.real_tokens == 2 + 3 + 4 + 5 + 1 + 2 + 3 * 6


def test_samples_are_in_the_sequence_of_training(tmp_path):
    """So that a loader that pads all rows to one width is compared with the same batches, padded to
    the longest row of each.
    """
    ranks, longest = [], 0
    for rank in (0, 1):
        lines = [begin(rank, 2)]
        for place in range(3):
            number = 11 - 2 * (2 * place + rank)
            lengths = number + 1, number + 2
            longest += 2 * max(lengths)
            made = batch(place, *lengths, width=30, epoch=0, numbers=[[number, number - 1]])
            lines += [made, step(place)]
        ranks.append(lines)
    recording = read_recording(write(tmp_path, *ranks))
    found = batches_of(recording)
    assert found.is_numbered
    lengths = found.collated.samples.lengths.tolist()
    assert lengths == [n for place in range(6) for n in (12 - 2 * place, 13 - 2 * place)]
    assert found.collated.batches.turns.tolist() == [[0, 1], [2, 3], [4, 5]]
    report = report_on(training_of_observed(observe_recording(recording), {}))
    assert report.simulation.row.counts.total_tokens == 6 * 2 * 30
    [same] = [change for change in report.changes.ranked if change.line]
    assert same.row.counts.total_tokens == longest


def test_a_recording_of_another_format_is_refused(tmp_path):
    lines = [begin() | {"format": FORMAT + 1}, batch(0, 3), step(0)]
    with pytest.raises(InputError, match=f"a recording of format {FORMAT + 1}, which this version"):
        read_recording(write(tmp_path, lines))


@pytest.mark.parametrize(
    "edit",
    [
        *({"k": "other"}, {"k": ["batch"]}, {"s": True}, {"s": -1}, {"t": [1]}, {"t": [0, "1"]}),
        *({"epoch": 0.5}, {"unused": [1]}, {"device": None}, {"parts": []}, {"digests": [1]}),
        *({"numbers": [[0], [1]]}, {"numbers": [[0, True]]}, {"digests": ["aa", "bb"]}),
    ],
)
def test_an_edited_batch_is_refused(tmp_path, edit):
    lines = [begin(), batch(0, 3, 5) | edit, step(0)]
    with pytest.raises(InputError, match="this is not as batchstat wrote it: record it again"):
        read_recording(write(tmp_path, lines))


@pytest.mark.parametrize(
    "edit",
    [
        *({"w": []}, {"w": [0]}, {"w": [4]}, {"by": 1}, {"n": [3, -5]}, {"n": [3, "5"]}),
        *({"n": None}, {"n": [3, [2, 4]]}, {"n": [3, [True]]}, {"y": None}, {"y": [1]}),
        *({"y": [1, [1, 1]]}, {"rows": 0}, {"ends": [[1, 2], [3]]}, {"decoder": [1]}),
        *({"labelled": [1, 2, 3]}, {"carry": -1}, {"straight": 1}),
    ],
)
def test_an_edited_part_is_refused(tmp_path, edit):
    made = batch(0, 3, 5)
    made["parts"][0] |= edit
    with pytest.raises(InputError, match="this is not as batchstat wrote it: record it again"):
        read_recording(write(tmp_path, [begin(), made, step(0)]))


@pytest.mark.parametrize(
    "lines",
    [
        [batch(0, 3, 5), step(0)],
        [begin(rank=1), batch(0, 3, 5)],
        [begin() | {"rank": False}, batch(0, 3, 5)],
        [begin() | {"torch": None}, batch(0, 3, 5)],
        [begin(), batch(0, 3, 5), step(0) | {"t": []}],
        [begin(), batch(0, 3, 5), {"k": "end", "why": "", "unused": [0]}],
        [begin(), batch(0, 3, 5), {"k": "handed", "e": 0, "n": [-1], "d": ""}],
    ],
)
def test_other_lines_that_were_edited_are_refused(tmp_path, lines):
    with pytest.raises(InputError, match="this is not as batchstat wrote it: record it again"):
        read_recording(write(tmp_path, lines))


TRAINER = {
    "k": "trainer",
    "kind": "Trainer",
    "version": "5.0",
    "framework": "transformers",
    "arguments": {"per_device_train_batch_size": 2, "max_steps": -1, "num_train_epochs": 3.0},
    "arguments_class": "TrainingArguments",
    "world_size": 1,
    "own_loss": [],
    "samples_by_arguments": True,
    "multiple": 1,
    "has_decoder": False,
    "takes_count": True,
}
NOTED = (
    *({"k": "started", "process": 1}, {"k": "torch", "process": 1}),
    {"k": "nothing", "process": 1, "unused": [3, 20], "waiting": 1},
    {"k": "ended", "process": 2, "code": 1},
)
EDITS = (
    *(None, True, "x", "2026-01-01", [], {}, [None], [1, "x"], [[["x"]]], {"k": 1}, -1, 2.5, 0),
    *(2**31, 2**63, -(2**70), 10**400, 1e300, [1e17, 1e17], float("inf"), float("nan")),
)
"""What somebody may write in the place of a value."""


@given(st.data())
def test_what_was_edited_is_one_clear_line(tmp_path_factory, data):
    """Any value of any file, also with its lines in another sequence or cut: the report is of what
    the recording still says, or there is one line of error.
    """
    folder = tmp_path_factory.mktemp("run")
    lines: list[dict[str, Any]] = [begin()]
    lines += data.draw(st.sampled_from([[], [json.loads(json.dumps(TRAINER))]]))
    if data.draw(st.integers(0, 3)):  # else nothing was recorded
        for i in range(3):
            lines += [batch(i, 3 + i, 5, epoch=0, numbers=[[2 * i, 2 * i + 1]]), step(i)]
    lines.append({"k": "end", "why": "the command ended", "unused": [1, 20]})
    noted = json.loads(json.dumps(NOTED))
    write(folder, lines, python="/bin/python", dry_run=False, steps=0)
    file = folder / "run.json"
    facts = json.loads(file.read_text())
    whole = data.draw(st.sampled_from([facts, lines, lines, noted]))
    if isinstance(whole, list) and data.draw(st.integers(0, 9)) == 0:
        whole[:] = data.draw(st.permutations(whole))
    place = whole
    while isinstance(place, list | dict) and place:  # a way down into it
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], list | dict) or data.draw(st.integers(0, 4)) == 0:
            if isinstance(place, dict) and data.draw(st.integers(0, 4)) == 0:
                del place[key]
            else:
                place[key] = data.draw(st.sampled_from(EDITS))
            break
        place = place[key]
    write(folder, lines)
    file.write_text(json.dumps(facts))
    (folder / "processes.jsonl").write_text("".join(json.dumps(each) + "\n" for each in noted))
    if data.draw(st.integers(0, 9)) == 0:
        cut = data.draw(st.sampled_from(sorted(folder.iterdir())))
        cut.write_bytes(cut.read_bytes()[: data.draw(st.integers(0, cut.stat().st_size))])
    refused = None
    try:
        observed = observe_recording(read_recording(folder))
        document = preflight_document(report_on(training_of_observed(observed, {})))
        assert json.loads(to_text(document))["run"]["steps"]
    except InputError as error:
        refused = str(error)
    assert refused is None or (folder.as_posix() in refused and refused.splitlines() == [refused])


def test_a_folder_without_a_run_is_said(tmp_path):
    with pytest.raises(InputError, match="no recording: name the folder that batchstat run wrote"):
        read_recording(tmp_path)


def test_no_strategy_is_a_remedy_for_an_encoder_and_a_decoder(tmp_path):
    lines = [begin()]
    for i in range(8):  # batches of equal samples would have no padding
        mask = (np.arange(30) < [[3], [30]]).astype(int)
        arrays = {"input_ids": mask, "attention_mask": mask, "labels": np.ones((2, 4), dtype=int)}
        parts = [part_of(each) for each in read_parts(arrays, has_decoder=True)]
        lines += [batch(i, 3) | {"parts": parts}, step(i)]
    checked = batchstat.check(None, {"max-padding": "9%"}, current=write(tmp_path, lines))
    assert [outcome.remedy for outcome in checked.failures] == [None]
