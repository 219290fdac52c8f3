"""Loops of torch in many forms, each against what it really computes."""

import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import batchstat
from batchstat.recording.recorder.loaders import Loaders
from batchstat.recording.recording import Recording
from batchstat.trainers.preflight.current import training_of_observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.preflight import report_on
from conftest import needs

torch = needs("torch")

pytestmark = pytest.mark.torch
nn = torch.nn

SEQUENCES = [torch.arange(3, 6 + 7 * place % 11) for place in range(40)]
LENGTHS = [len(each) for each in SEQUENCES]


def padded(rows: list[Any]) -> Any:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class Model(nn.Module):  # type: ignore[misc]
    """Takes token ids."""

    def __init__(self, padding: int | None = 0) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 4, padding_idx=padding)
        self.out = nn.Linear(4, 1)

    def forward(self, ids: Any) -> Any:
        return self.out(self.embed(ids))


def train(model: Any, batches: Any, call: Callable[[Any, Any], Any] | None = None) -> None:
    """A step for each batch."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, 0.1)
    for batch in batches:
        (model(batch) if call is None else call(model, batch)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(SEQUENCES, 4, **{"collate_fn": padded, **options})


def recorded(folder: Any, loop: Callable[[], None], **options: Any) -> Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with batchstat.record(folder, **options) as run:
            loop()
    return run.recording


def real(recording: Recording) -> list[int]:
    """The real tokens of each recorded sample."""
    [rank] = recording.ranks
    parts = [part for batch in rank.batches for part in batch.parts]
    return [n for part in parts for row in part.real or () for n in row]


def widths(recording: Recording) -> list[int]:
    return [part.width for batch in recording.ranks[0].batches for part in batch.parts]


OWN_WIDTHS = [max(LENGTHS[place : place + 4]) for place in range(0, 40, 4)]


class Named(NamedTuple):
    ids: Any
    attention_mask: Any


@dataclass
class Held:
    ids: Any
    attention_mask: Any


class TakesHeld(Model):
    """Takes an object that holds token ids and a mask."""

    def forward(self, batch: Any) -> Any:
        return super().forward(batch.ids) * batch.attention_mask[..., None]


class TakesLengths(Model):
    """Takes the lengths of its rows."""

    def forward(self, ids: Any, lengths: Any) -> Any:
        return super().forward(ids).sum(1) / lengths[:, None]


class NamedAsInNanoGpt(Model):
    """Names its arguments as nanoGPT does."""

    def forward(self, idx: Any, targets: Any = None) -> Any:
        return super().forward(idx) * (targets != 0)[..., None]


def of_lengths(rows: list[Any]) -> tuple[Any, Any]:
    return padded(rows), torch.tensor([len(each) for each in rows])


LOOPS: dict[str, Callable[[], None]] = {
    "one argument": lambda: train(Model(), loader()),
    "a named tuple": lambda: train(
        TakesHeld(None), loader(), lambda model, ids: model(Named(ids, (ids != 0).long()))
    ),
    "a data class": lambda: train(
        TakesHeld(None), loader(), lambda model, ids: model(Held(ids, (ids != 0).long()))
    ),
    "lengths": lambda: train(
        TakesLengths(None), loader(collate_fn=of_lengths), lambda model, pair: model(*pair)
    ),
    "lengths, compiled": lambda: train(
        torch.compile(TakesLengths(None), backend="eager"),
        loader(collate_fn=of_lengths),
        lambda model, pair: model(*pair),
    ),
    "idx": lambda: train(
        NamedAsInNanoGpt(), loader(), lambda model, ids: model(ids, torch.roll(ids, 1))
    ),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dry", [False, True])
def test_every_row_and_width_is_recorded(name, dry, tmp_path):
    found = recorded(tmp_path / "run", LOOPS[name], dry_run=dry)
    assert real(found) == LENGTHS
    assert widths(found) == OWN_WIDTHS


def test_columns_are_samples_where_lengths_say_so(tmp_path):
    class Columns(Model):
        def forward(self, ids: Any, lengths: Any) -> Any:
            return super().forward(ids).sum(0) / lengths[:, None]

    def loop() -> None:
        batches = loader(collate_fn=of_lengths)
        train(Columns(), batches, lambda model, pair: model(pair[0].T.contiguous(), pair[1]))

    for dry in (False, True):
        found = recorded(tmp_path / str(dry), loop, dry_run=dry)
        assert (real(found), widths(found)) == (LENGTHS, OWN_WIDTHS)


@pytest.mark.parametrize("dry", [False, True])
def test_a_model_of_language_is_given_all_tokens_but_the_last(dry, tmp_path):
    found = recorded(
        tmp_path / "run",
        lambda: train(Model(), loader(), lambda model, ids: model(ids[:, :-1])),
        dry_run=dry,
    )
    shown = [min(n, width - 1) for n, width in zip(LENGTHS, np.repeat(OWN_WIDTHS, 4), strict=True)]
    assert real(found) == shown


@pytest.mark.parametrize("frozen", [False, True])
def test_a_teacher_is_not_trained(frozen, tmp_path):
    teacher = Model()
    teacher.requires_grad_(not frozen)

    def call(model: Any, ids: Any) -> Any:
        if frozen:
            return model(ids) - teacher(ids)
        with torch.no_grad():
            given = teacher(ids)
        return model(ids) - given

    found = recorded(tmp_path / "run", lambda: train(Model(), loader(), call))
    assert real(found) == LENGTHS
    assert all(batch.numbers is not None for batch in found.ranks[0].batches)


def test_several_sets_of_ids_have_widths_of_their_own(tmp_path):
    class Loss(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def forward(self, features: Any) -> Any:
            return torch.stack([self.model(each["input_ids"]).sum() for each in features])

    queries = [each[:3] for each in SEQUENCES]

    def call(model: Any, numbers: Any) -> Any:
        both = (padded([rows[n] for n in numbers]) for rows in (queries, SEQUENCES))
        return model([{"input_ids": ids, "attention_mask": (ids != 0).long()} for ids in both])

    batches = torch.utils.data.DataLoader(range(40), 4)
    found = recorded(tmp_path / "run", lambda: train(Loss(), batches, call))
    assert sum(real(found)) == 40 * 3 + sum(LENGTHS)
    assert widths(found) == [n for width in OWN_WIDTHS for n in (3, width)]


def test_labels_of_the_last_tokens_are_not_those_of_a_decoder(tmp_path):
    class Last(Model):
        config = type("Config", (), {"is_encoder_decoder": False, "pad_token_id": 0})

        def forward(self, input_ids: Any, labels: Any) -> Any:
            return super().forward(input_ids)[:, -labels.shape[1] :] * (labels != -100)[..., None]

    def call(model: Any, ids: Any) -> Any:
        return model(ids, ids.masked_fill(ids == 0, -100)[:, -2:])

    found = recorded(tmp_path / "run", lambda: train(Last(), loader(), call))
    assert (real(found), widths(found)) == (LENGTHS, OWN_WIDTHS)
    expected = [
        max(0, n - (width - 2)) for n, width in zip(LENGTHS, np.repeat(OWN_WIDTHS, 4), strict=True)
    ]
    parts = [part for batch in found.ranks[0].batches for part in batch.parts]
    assert [n for part in parts for row in part.trained or () for n in row] == expected


def test_an_id_that_pads_may_stand_inside_a_text(tmp_path):
    rows = [torch.tensor([5, 0, 6, 0, 7]), torch.tensor([8, 0, 9])]
    batches = torch.utils.data.DataLoader(rows * 4, 2, collate_fn=padded)
    found = recorded(tmp_path / "run", lambda: train(Model(), batches))
    assert real(found) == [5, 3] * 4


def test_features_with_a_label_for_each_are_no_token_ids(tmp_path):
    class Features(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(4, 6)

        def forward(self, x: Any, y: Any) -> Any:
            return (self.out(x) - y) ** 2

    def loop() -> None:
        batches = [(torch.ones(3, 4), torch.randint(0, 2, (3, 6))) for _ in range(5)]
        train(Features(), batches, lambda model, pair: model(*pair))

    assert not recorded(tmp_path / "run", loop).ranks


class OfNumPy:
    """A sampler whose numbers are NumPy's."""

    def __iter__(self) -> Any:
        return iter(np.random.default_rng(0).permutation(40))

    def __len__(self) -> int:
        return 40


def test_sample_numbers_of_numpy_are_known(tmp_path):
    found = recorded(tmp_path / "run", lambda: train(Model(), loader(sampler=OfNumPy())))
    numbers = [n for batch in found.ranks[0].batches for n in batch.numbers[0]]
    assert numbers == list(OfNumPy())
    assert real(found) == [LENGTHS[n] for n in numbers]


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_are_told_apart(workers, tmp_path):
    """Also those of workers that persist, and with an evaluation of the same rows between."""
    batches = loader(shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    same = loader()

    def loop() -> None:
        model = Model()
        for _ in range(3):
            train(model, batches)
            with torch.no_grad():
                for ids in same:
                    model(ids)

    found = recorded(tmp_path / "run", loop)
    report = report_on(training_of_observed(observe_recording(found), {}))
    assert report.simulation.row.counts.batches == 10
    assert any("3 epochs were recorded" in each.message for each in report.warnings)
    for batch in found.ranks[0].batches:
        [part], [numbers] = batch.parts, batch.numbers
        assert [row[0] for row in part.real] == [LENGTHS[n] for n in numbers]


@pytest.mark.parametrize("loaders", ["one", "anew"])
def test_a_batch_that_an_earlier_epoch_skipped_is_of_its_own(loaders, tmp_path):
    """Batches of a device's copies are known by their ids, and read after both epochs are over."""

    def loop() -> None:
        model, both = Model(), loader()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for epoch in range(2):
            each = both if loaders == "one" else loader()
            for place, batch in enumerate(each):
                if place % 2 == epoch:
                    model(batch.clone()).sum().backward()
        optimizer.step()

    [rank] = recorded(tmp_path / "run", loop).ranks
    assert [batch.epoch for batch in rank.batches] == [0] * 5 + [1] * 5


@pytest.mark.parametrize("dry", [False, True])
def test_two_models_compute_a_batch_that_an_evaluation_had(dry, tmp_path):
    """The second computes that of the first again, not the batch of the evaluation."""

    def loop() -> None:
        models, train = [Model(), Model()], loader()
        optimizer = torch.optim.SGD([*models[0].parameters(), *models[1].parameters()], 0.1)
        with torch.no_grad():
            for batch in train:
                models[0](batch)
        for batch in train:
            for model in models:
                model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    [rank] = recorded(tmp_path / "run", loop, dry_run=dry).ranks
    assert {batch.epoch for batch in rank.batches} <= {1, None}


def test_many_evaluations_do_not_hide_the_loader_that_trains(tmp_path):
    """Of a loader whose workers persist, one iterator serves all its evaluations."""

    def loop() -> None:
        model, evaluated = Model(), loader(num_workers=1, persistent_workers=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch in loader():
            with torch.no_grad():
                for each in evaluated:
                    model(each)
            model(batch.clone()).sum().backward()
            optimizer.step()

    [rank] = recorded(tmp_path / "run", loop).ranks
    assert {batch.epoch for batch in rank.batches} == {0}
    assert widths(recorded(tmp_path / "again", loop)) == OWN_WIDTHS


def test_epochs_of_one_batch_are_two_in_a_dry_run(tmp_path):
    def loop() -> None:
        model, one = Model(), torch.utils.data.DataLoader(SEQUENCES, 40, collate_fn=padded)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            for batch in one:
                model(batch[:, :-1]).sum().backward()
        optimizer.step()

    [rank] = recorded(tmp_path / "run", loop, dry_run=True).ranks
    assert [batch.epoch for batch in rank.batches] == [0, 1]


def test_loaders_of_parts_of_a_data_set_are_said(tmp_path):
    """What a loop draws in each may be the stages of a curriculum, or epochs of which it skips."""

    def loop() -> None:
        for part in (range(20), range(20, 40)):
            train(Model(), loader(sampler=part))

    with batchstat.record(tmp_path / "run") as run:
        loop()
    assert real(run.recording) == LENGTHS
    said = {each.id: each.message for each in run.report.warnings}
    assert said["recording/several-loaders"].startswith("2 loaders of 1 data set")


def test_batches_in_any_sequence_have_no_numbers(tmp_path):
    batches = loader(num_workers=2, in_order=False)
    found = recorded(tmp_path / "run", lambda: train(Model(), batches))
    assert sorted(real(found)) == sorted(LENGTHS)
    assert all(batch.numbers is None for batch in found.ranks[0].batches)


def test_a_sample_that_is_drawn_twice_is_counted_twice(tmp_path):
    sampler = torch.utils.data.WeightedRandomSampler([1.0] * 40, 40)
    with batchstat.record(tmp_path / "run") as run:
        train(Model(), loader(sampler=sampler))
    assert run.report.simulation.row.counts.real_tokens == sum(real(run.recording))


def test_a_dry_run_without_a_loader_says_that_it_has_no_epoch(tmp_path):
    def loop() -> None:
        train(Model(), (padded(SEQUENCES[place : place + 4]) for place in range(0, 40, 4)))

    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        loop()
    assert len(run.recording.ranks[0].batches) == 3
    messages = [each.message for each in run.report.warnings]
    why = "this is less than an epoch: how the loop makes its batches"
    assert any(why in each for each in messages)


def test_a_dry_run_of_a_batch_in_parts_says_that_it_has_no_epoch(tmp_path):
    def loop() -> None:
        one, other = Model(), Model()
        optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], 0.1)
        for ids in loader():
            one(ids).sum().backward()
            other(ids).sum().backward()
            optimizer.step()

    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        loop()
    messages = [each.message for each in run.report.warnings]
    assert any("several backwards compute one batch of its loader" in each for each in messages)


@pytest.mark.parametrize("last", [1, 9])
def test_a_cut_that_several_rules_explain_is_not_guessed(last, tmp_path):
    """What is cut to half may look as if two columns were cut off, of which some rows have one."""
    widths = (4, 3, 4, 3, last)
    rows = [torch.arange(3, 3 + width) for width in widths for _ in range(4)]

    def loop() -> None:
        def halved() -> Any:
            for ids in torch.utils.data.DataLoader(rows, 4, collate_fn=padded):
                yield ids[:, : max(1, ids.shape[1] // 2)]

        train(Model(), halved())

    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        loop()
    whole = real(run.recording) == [each // 2 or 1 for each in widths for _ in range(4)]
    said = any(each.id == "recording/part-of-epoch" for each in run.report.warnings)
    assert whole or said


def test_a_sampler_without_an_end_is_read_for_so_many_steps(tmp_path):
    class Endless:
        def __iter__(self) -> Any:
            while True:
                yield 0

    found = recorded(
        tmp_path / "run",
        lambda: train(Model(), loader(sampler=Endless())),
        dry_run=True,
        steps=25,
    )
    assert len(found.ranks[0].batches) == 25


def test_modules_before_training_do_not_end_recording(tmp_path, monkeypatch):
    from batchstat.recording.recorder import forwards

    monkeypatch.setattr(forwards, "_MOST_MISSES", 20)

    def loop() -> None:
        linear = nn.Linear(2, 2)
        for _ in range(50):
            linear(torch.ones(3, 2))
        linear(torch.ones(3, 2)).sum().backward()
        train(Model(), loader())

    assert real(recorded(tmp_path / "run", loop)) == LENGTHS


CUTS: dict[str, Callable[[Any, int], int]] = {
    "whole": lambda ids, _: ids.shape[1],
    "all but the last": lambda ids, _: ids.shape[1] - 1,
    "to a width": lambda ids, number: min(ids.shape[1], number),
    "to the longest": lambda ids, _: int((ids != 0).sum(1).max()),
}


@dataclass
class AnyLoop:
    """A loop that is drawn from a seed, and what it computes by its own count: (epoch, data set,
    rows, width, real tokens) of each batch.
    """

    seed: int
    cut: str
    skips: bool
    kind: str  # "one", "zip", "sequence" or "tokens"
    epochs: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        lengths = np.sort(rng.integers(2, 30, size=36))[:: int(rng.choice([-1, 1]))]
        self.rows = [torch.tensor(rng.integers(1, 50, size=n)) for n in lengths]
        self.number, self.width = int(rng.integers(3, 20)), int(rng.choice([0, 32]))
        self.computed: list[tuple[int, int, int, int, int]] = []
        self.steps: list[int] = []  # how many batches were computed when each step ended

    def loader(self, rows: list[Any]) -> Any:
        def collate(given: list[Any]) -> Any:
            ids = padded(given)
            return nn.functional.pad(ids, (0, max(0, self.width - ids.shape[1])))

        return torch.utils.data.DataLoader(rows, 3, collate_fn=collate)

    def run(self) -> None:
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loaders = [self.loader(self.rows)]
        if self.kind in ("zip", "sequence"):
            loaders = [self.loader(self.rows[:18]), self.loader(self.rows[18:])]
        tokens = 0
        for epoch in range(self.epochs):
            batches: Any = ((place, ids) for place, each in enumerate(loaders) for ids in each)
            if self.kind == "zip":
                batches = (each for pair in zip(*loaders, strict=True) for each in enumerate(pair))
            for number, (data, whole) in enumerate(batches):
                if self.skips and number % 2:
                    continue
                ids = whole[:, : CUTS[self.cut](whole, self.number)]
                model(ids).sum().backward()
                real = int((ids != 0).sum())
                self.computed.append((epoch, data, len(ids), ids.shape[1], real))
                tokens += real
                if self.kind != "tokens" or tokens > 100:
                    tokens = 0
                    optimizer.step()
                    optimizer.zero_grad()
                    self.steps.append(len(self.computed))


def totals(computed: list[tuple[int, int, int, int, int]]) -> tuple[int, int, int]:
    rows = sum(each[2] * each[3] for each in computed)
    return len(computed), sum(each[4] for each in computed), rows


@pytest.mark.parametrize("seed", range(32))
def test_a_loop_is_whole_or_said_not_to_be(seed, tmp_path):
    """In full and dry, against the loop's own count."""
    rng = np.random.default_rng(seed)
    kinds = ["one", "one", "zip", "sequence", "tokens"]
    drawn = str(rng.choice(list(CUTS))), bool(rng.random() < 0.25), str(rng.choice(kinds))
    loop = AnyLoop(seed, *drawn, epochs=int(rng.integers(1, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with batchstat.record(tmp_path / "full") as full:
            loop.run()
        counts, ids = full.report.simulation.row.counts, {each.id for each in full.report.warnings}
        found = counts.batches, counts.real_tokens, counts.total_tokens
        epoch = [each for each in loop.computed if each[0] == 0]
        if "recording/unknown-epochs" in ids:
            assert loop.cut != "whole"
            assert found == totals(loop.computed)
        else:
            assert found == totals(epoch)
            assert ("recording/several-epochs" in ids) == (loop.epochs > 1)
        assert "recording/drawn-again" not in ids

        dry = AnyLoop(seed, *drawn, epochs=loop.epochs)
        with batchstat.record(tmp_path / "dry", dry_run=True) as run:
            dry.run()
    counts, ids = run.report.simulation.row.counts, {each.id for each in run.report.warnings}
    found = counts.batches, counts.real_tokens, counts.total_tokens
    per_step = np.diff([0, *dry.steps])
    if "recording/part-of-epoch" in ids:
        assert found == totals(dry.computed)
        ambiguous = loop.cut == "to the longest"
        assert loop.skips or loop.kind == "zip" or len(set(per_step)) > 1 or ambiguous
    else:
        # A loader after this one was not seen, nor a width beyond which batches are cut.
        expected = [each for each in epoch if loop.kind != "sequence" or each[1] == 0]
        widest = max(each[3] for each in dry.computed)
        assert found == totals(expected) or (loop.cut == "to a width" and widest < loop.number)


def test_a_thread_that_infers_does_not_hide_the_training(tmp_path):
    ended = threading.Event()
    other, big = Model(), torch.ones(3, 40, dtype=torch.long)

    def infer() -> None:
        with torch.no_grad():
            while not ended.is_set():
                other(big)

    def loop() -> None:
        thread = threading.Thread(target=infer)
        thread.start()
        train(Model(), loader())
        ended.set()
        thread.join()

    found = recorded(tmp_path / "run", loop)
    assert (real(found), widths(found)) == (LENGTHS, OWN_WIDTHS)


class Iterator:
    """Stands for that of a loader, which is noted by what it is called with alone."""


def test_threads_that_iterate_do_not_end_recording():
    """Each begins iterators while a forward asks which there are."""
    loaders, is_over = Loaders(keeps_batches=False), threading.Event()

    def iterate() -> None:
        while not is_over.is_set():
            held = [Iterator() for _ in range(50)]
            for each in held:
                loaders.note_yielded(each, [])

    thread, interval = threading.Thread(target=iterate), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # else threads seldom meet
    thread.start()
    try:
        reads = most = 0
        end = time.monotonic() + 60  # a busy machine lets the thread begin late
        while (reads < 5_000 or most <= 10) and time.monotonic() < end:
            most = max(most, len(loaders.epochs.live))
            reads += 1
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert most > 10


def test_threads_that_train_are_said_to(tmp_path):
    def loop() -> None:
        threads = [threading.Thread(target=train, args=(Model(), loader())) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with batchstat.record(tmp_path / "run") as run:
            loop()
    assert sorted(real(run.recording)) == sorted(LENGTHS * 2)
    assert any("2 threads trained" in each.message for each in run.report.warnings)
