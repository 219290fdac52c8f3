"""A recording as the current setup: of comparisons, checks and measurements."""

import json
import pickle
import shlex
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given, settings

import batchstat
from batchstat import InputError, OptionError
from batchstat.profiling.parquet import read_file, save_lengths
from batchstat.profiling.staleness import changes
from batchstat.recording.recording import RUN_FILE
from batchstat.simulation.compare.nearby import nearby
from batchstat.trainers.preflight.current import observe_folder
from conftest import Cli, Run
from written import batch, begin, step, write

ROWS = st.lists(st.integers(1, 40), min_size=1, max_size=4)
STEPS = st.lists(ROWS, min_size=1, max_size=3)
"""The lengths of each batch of a step."""


def recording(folder: Path, ranks: list[list[list[list[int]]]], **more: Any) -> Path:
    """A recording of ranks, each of steps, each of batches, whose samples have numbers."""
    files, number = [], 0
    for place, steps in enumerate(ranks):
        lines = [begin(place, len(ranks))]
        for of_step, batches in enumerate(steps):
            for lengths in batches:
                numbers = list(range(number, number + len(lengths)))
                number += len(lengths)
                lines.append(batch(of_step, *lengths, epoch=0, numbers=[numbers]))
            lines.append(step(of_step))
        files.append(lines)
    return write(folder, *files, **more)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Two ranks, three steps of two batches."""
    folder = tmp_path / "my-run"
    folder.mkdir()
    ranks = [[[[3, 9], [4, 4]], [[1, 8], [2, 2]], [[5, 5], [7, 1]]] for _ in range(2)]
    return recording(folder, ranks, created=datetime.now(UTC).isoformat())


@st.composite
def whole_ranks(draw: st.DrawFn) -> list[list[list[list[int]]]]:
    """Ranks with as many steps."""
    steps = draw(st.integers(1, 4))
    one = st.lists(STEPS, min_size=steps, max_size=steps)
    return draw(st.lists(one, min_size=1, max_size=3))


@settings(max_examples=12)  # each is compared and measured
@given(ranks=whole_ranks())
def test_its_row_is_what_a_loop_counts(tmp_path_factory, ranks):
    folder = recording(tmp_path_factory.mktemp("run"), ranks)
    batches = [lengths for steps in ranks for of_step in steps for lengths in of_step]
    row = batchstat.compare(current=folder, strategies=["static"], batch_size=4).current
    for counts in (row.counts, batchstat.measure(str(folder)).counts):
        assert counts.real_tokens == sum(map(sum, batches))
        assert counts.total_tokens == sum(max(lengths) * len(lengths) for lengths in batches)
        assert counts.samples == sum(map(len, batches))
        assert counts.steps == len(ranks[0])
        assert counts.max_batch_tokens == max(max(each) * len(each) for each in batches)


@settings(max_examples=12)  # each is compared twice
@given(
    lengths=st.lists(st.integers(1, 40), min_size=2, max_size=40),
    size=st.integers(1, 6),
    accumulation=st.integers(1, 3),
)
def test_other_rows_are_those_of_the_same_lengths(tmp_path_factory, lengths, size, accumulation):
    batches = [lengths[place : place + size] for place in range(0, len(lengths), size)]
    steps = [
        batches[place : place + accumulation] for place in range(0, len(batches), accumulation)
    ]
    folder = recording(tmp_path_factory.mktemp("run"), [steps])
    names = ["static", "bucketed", "token-budget", "packed"]
    shared: dict[str, Any] = {"strategies": names, "batch_size": size, "tokens_per_batch": 200}
    found = batchstat.compare(current=folder, **shared)
    most = max(map(len, steps))
    own = {"order": "file", "gradient_accumulation_steps": most, "loss": found.basis.loss}
    again = batchstat.compare(lengths, **shared, **own, max_length=max(lengths))
    for name in names:
        assert found[name].counts == again[name].counts
    if all(len(of_step) == most for of_step in steps):
        assert found.current.counts.compute == again["static"].counts.compute


def test_a_comparison_shows_the_run(run_folder, cli: Cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    code, shown, aside = cli("compare", "--current", run_folder, "--no-plots", "--html", page)
    assert code == 0, aside
    assert shown.startswith("run      train.py · torch 2.13.0 · 2 ranks · 3 steps recorded\n")
    assert f"24 samples · 102 tokens recorded in {run_folder.as_posix()}\n" in shown
    assert "● train.py" in shown
    assert "batchstat recipe " in shown  # its records index the data set
    document = json.loads((tmp_path / "batchstat-results/compare.json").read_text())
    assert document["run"]["command"] == "train.py"
    assert document["choice"]["current"] == "train.py"
    assert "train.py" in page.read_text()


@settings(max_examples=8)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=5, max_size=30),
    gaps=st.lists(st.integers(1, 9), min_size=30, max_size=30),
    shuffle=st.randoms(use_true_random=False),
)
def test_records_are_the_numbers_of_the_data_set(tmp_path_factory, lengths, gaps, shuffle):
    """Also of a part of it, in whatever sequence; in the results folder and in a pickle too."""
    numbers = [sum(gaps[: place + 1]) for place in range(len(lengths))]
    shuffle.shuffle(numbers)
    length_of = dict(zip(numbers, lengths, strict=True))
    lines: list[dict[str, Any]] = [begin()]
    for place in range(0, len(numbers), 3):
        own = numbers[place : place + 3]
        lines += [batch(place, *map(length_of.get, own), epoch=0, numbers=[own]), step(place)]
    folder = write(tmp_path_factory.mktemp("run"), lines)
    profile = observe_folder(folder).profile
    file = folder / "lengths.parquet"
    with file.open("wb") as opened:
        save_lengths(profile, opened)
    for kept in (profile, read_file(file), pickle.loads(pickle.dumps(profile))):  # noqa: S301
        assert kept.is_indexed
        assert dict(zip(kept.records.tolist(), kept.lengths.tolist(), strict=True)) == length_of
        assert not [*changes(kept)]
    settings_ = {"order": "file", "batch_size": 2}
    row = batchstat.compare(current=folder, strategies=["bucketed"], **settings_)["bucketed"]
    batches = [*batchstat.BatchSampler(file, "bucketed", **settings_)]
    widths = [max(map(length_of.get, each)) * len(each) for each in batches]
    assert sorted(chain.from_iterable(batches)) == sorted(numbers)
    assert (sum(widths), len(batches)) == (row.counts.total_tokens, row.counts.batches)


def test_a_recipe_of_a_recording_is_refused_in_one_line(tmp_path, cli: Cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines: list[dict[str, Any]] = [begin()]
    for place in range(20):
        lines += [batch(place, 5, 40, 7, digests=["a" * 48]), step(place)]
    (folder := tmp_path / "run").mkdir()
    write(folder, lines)
    assert cli("compare", "--current", folder, "--no-plots")[0] == 0
    for more in ([], ["--strategy", "bucketed"]):
        code, _, aside = cli("recipe", *more)
        assert code == 3
        assert aside == (
            "error: the samples of batchstat-results/lengths.parquet are numbered as they were "
            "read, and index no data set: profile its corpus, or pass the lengths of its samples "
            "in their sequence\n"
        )
    code, shown, aside = cli("compare", "--no-plots")  # of the samples in the results folder
    assert (code, "batchstat recipe" in shown, "stale" in aside) == (0, False, False)
    with pytest.raises(InputError, match="was not read from files"):
        batchstat.read_samples("batchstat-results/lengths.parquet")


@pytest.mark.parametrize(
    "best", ["train.py", "regrouped:of=train.py", "regrouped:pairs=9,of=train.py"]
)
def test_the_batches_of_a_recording_have_no_recipe(
    run_folder, cli: Cli, monkeypatch, tmp_path, best
):
    monkeypatch.chdir(tmp_path)
    assert cli("compare", "--current", run_folder, "--no-plots")[0] == 0
    file = tmp_path / "batchstat-results/compare.json"
    document = json.loads(file.read_text())
    document["choice"]["best"] = best
    file.write_text(json.dumps(document))
    code, _, aside = cli("recipe")
    assert (code, aside) == (
        3,
        f"error: batchstat-results/compare.json recommends {best}, which no recipe makes: run "
        "batchstat compare again, or name a strategy with --strategy\n",
    )


def test_rows_near_a_recording_are_on_its_ranks(run_folder):
    found = batchstat.compare(current=run_folder)
    near = nearby(found)
    assert near.rows
    assert not near.without_batch
    assert {row.world_size for row in near.rows} == {2}
    assert set(found.to_frame()["shuffling"]) <= {"as run", "sorted", "partial", "full"}


def test_a_recording_is_measured_again(run_folder, cli: Cli):
    code, shown, _ = cli("measure", run_folder)
    assert (code, shown.startswith("run      train.py")) == (0, True)
    code, shown, _ = cli("measure", run_folder, "--json")
    assert json.loads(shown)["run"]["steps"] == 3


def test_a_check_of_a_recording(run_folder, cli: Cli, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    code, shown, aside = cli("check", "--current", run_folder, "--max-padding", "1%")
    assert code == 1
    assert "train.py" in shown
    assert "remedy" in shown
    assert aside.startswith("recording of train.py, just now, in ")
    assert "record it again" not in aside
    assert cli("check", "--current", run_folder, "--max-padding", "90%")[0] == 0


@pytest.mark.parametrize("in_ci", [True, False])
def test_a_check_of_an_old_recording_says_so(run_folder, cli: Cli, monkeypatch, in_ci):
    facts = json.loads((run_folder / RUN_FILE).read_text())
    facts["created"] = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    (run_folder / RUN_FILE).write_text(json.dumps(facts))
    monkeypatch.delenv("CI", raising=False)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    code, _, aside = cli("check", "--current", run_folder, "--max-padding", "90%")
    assert code == 0
    assert ("record it again with batchstat run" in aside) is not in_ci


def test_what_init_writes_records_first(run_folder, run: Run, tmp_path):
    name = run_folder.name
    made = run("init", "--current", name, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert f'current = "{name}"\n' in (tmp_path / "batchstat.toml").read_text()
    steps = yaml.safe_load(made.stdout)["jobs"]["padding"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    [record, check] = [each for each in commands if each.startswith("batchstat")]
    assert shlex.split(record) == [*("batchstat", "run", "--dry-run", "-o", name, "--", "train.py")]
    assert check.startswith("batchstat check")
    assert run("check", cwd=tmp_path).returncode == 0


def test_a_part_of_a_program_cannot_be_recorded_by_a_workflow(run_folder, cli: Cli):
    facts = json.loads((run_folder / RUN_FILE).read_text())
    (run_folder / RUN_FILE).write_text(json.dumps({**facts, "command": []}))
    code, _, aside = cli("init", "--current", run_folder)
    assert code == 3
    assert "record its command with batchstat run" in aside


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("corpus.txt",), 2, "brings its own samples: remove it"),
        (("--tokenizer", "bert-base-cased"), 2, "brings its own samples"),
        (("--world-size", "4"), 2, "world_size=4: "),
        (("--max-length", "4"), 2, "max_length=4: "),
        (("--subsample", "10%"), 2, "remove subsample"),
    ],
)
def test_what_does_not_go_with_a_recording(run_folder, cli: Cli, arguments, code, message):
    found, _, aside = cli("compare", "--current", run_folder, *arguments)
    assert found == code
    assert message in aside
    assert aside.count("\n") == 1


def test_what_it_was_recorded_with_may_be_said_again(run_folder, cli: Cli):
    """As the command lines of a page do, which name all settings."""
    again = ("--world-size", "2", "--max-length", "9", "--gradient-accumulation-steps", "2")
    compare = ("compare", "--current", run_folder, "--no-plots")
    code, shown, aside = cli(*compare, *again)
    assert code == 0, aside
    assert shown == cli(*compare)[1]


def test_what_is_no_recording(run_folder, cli: Cli, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        code, _, aside = cli("check", "--current", folder, "--max-padding", "9%")
        assert (code, aside.count("\n")) == (3, 1)
        assert "name the folder that batchstat run wrote" in aside
    with pytest.raises(OptionError, match="brings its own samples"):
        batchstat.compare([1, 2], current=run_folder)
    with pytest.raises(OptionError, match="with its own samples"):
        batchstat.measure(run_folder, [1, 2])
    with pytest.raises(OptionError, match="no samples"):
        batchstat.compare()


@given(st.data())
def test_edited_lines_are_one_clear_line(tmp_path_factory, data):
    folder = recording(tmp_path_factory.mktemp("run"), [[[[3, 9], [4, 4]], [[1, 8], [2]]]])
    [path] = folder.glob("*.jsonl")
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    line = data.draw(st.sampled_from(lines))
    inner = data.draw(st.sampled_from([line, *line.get("parts", ())]))
    key = data.draw(st.sampled_from(sorted(inner)))
    if data.draw(st.booleans()):
        del inner[key]
    else:
        inner[key] = data.draw(st.sampled_from([None, "x", [], {}, [None], -1, 2.5, [[["x"]]]]))
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    with suppress(InputError):  # as it was told, or what it still says
        assert batchstat.measure(folder).counts.batches


def test_a_line_that_is_none_is_named(run_folder):
    [path, _] = sorted(run_folder.glob("*.jsonl"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "edited\n", *lines[2:]]))
    with pytest.raises(InputError, match="line 3 is not as batchstat wrote it"):
        batchstat.measure(run_folder)


def test_files_of_another_run_are_left_out(run_folder, cli: Cli):
    facts = json.loads((run_folder / RUN_FILE).read_text())
    (run_folder / "00000-other-1.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [begin() | {"id": "b"}, batch(0, 3), step(0)])
    )
    assert facts["id"] == "a"
    code, _, aside = cli("measure", run_folder)
    assert code == 0
    assert "1 file of another run in the same folder: left out" in aside


def test_a_run_that_was_killed_says_so(run_folder, cli: Cli):
    """Its files have no line of its end."""
    _, _, aside = cli("measure", run_folder)
    assert "ranks 0, 1 did not come to an end: still running or killed" in aside
    for path in run_folder.glob("*-host-*.jsonl"):
        with path.open("a") as file:
            file.write(json.dumps({"k": "end", "why": "the command ended", "unused": [0, 0]}))
            file.write("\n")
    _, _, aside = cli("measure", run_folder)
    assert "did not come to an end" not in aside


@pytest.mark.parametrize("again", [4, 5])
def test_samples_that_are_drawn_with_replacement(tmp_path, cli: Cli, again):
    """As many as a batch on each rank may fill up the last ones; of more, each row is a sample."""
    numbers = [*range(40), *range(again)]
    lines: list[dict[str, Any]] = [begin()]
    for place in range(0, len(numbers), 4):
        own = numbers[place : place + 4]
        batched = batch(place // 4, *[each + 1 for each in own], epoch=0, numbers=[own])
        lines += [batched, step(place // 4)]
    folder = write(tmp_path, lines)
    counts = batchstat.compare(current=folder, strategies=["static"]).current.counts
    assert counts.duplicated_samples == (4 if again == 4 else 0)
    _, _, aside = cli("measure", folder)
    assert ("45 recorded rows counts as one" in aside) == (again == 5)
