"""Steps of loops of torch, each against what the loop itself counts."""

from collections.abc import Callable
from typing import Any

import pytest

import batchstat
from batchstat.documents.preflight import preflight_document
from conftest import needs

torch = needs("torch")

pytestmark = pytest.mark.torch
nn = torch.nn


class Loop:
    """A loop that accumulates gradients, and counts what becomes of its samples."""

    def __init__(self, n_batches: int, **options: Any) -> None:
        self.data = torch.arange(1, 1 + 2 * n_batches * 4).reshape(2 * n_batches, 4)
        self.model = nn.Sequential(nn.Embedding(200, 4, padding_idx=0), nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.options = options
        # Of each epoch: steps, and samples by the epoch in which they were stepped; None for never.
        self.steps: list[int] = []
        self.fates: list[list[int | None]] = []
        self._waiting: list[tuple[int, int]] = []  # (epoch, place in it) of samples

    def _clear(self) -> None:
        (self.model if self.options["by_model"] else self.optimizer).zero_grad()
        self._waiting.clear()

    def run(self) -> None:
        loader = torch.utils.data.DataLoader(self.data, 2, shuffle=True)
        per_step, makes_tail = self.options["per_step"], self.options["makes_tail"]
        for epoch in range(self.options["epochs"]):
            self.steps.append(0)
            self.fates.append([])
            if self.options["clears"]:
                self._clear()
            for number, ids in enumerate(loader, 1):
                self.model(ids).sum().backward()
                for _ in ids:
                    self._waiting.append((epoch, len(self.fates[epoch])))
                    self.fates[epoch].append(None)
                if number % per_step == 0 or (makes_tail and number == len(loader)):
                    self.optimizer.step()
                    self.steps[epoch] += 1
                    for of_epoch, place in self._waiting:
                        self.fates[of_epoch][place] = epoch
                    self._clear()


def drawn(seed: int) -> Loop:
    rng = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(0, most, (), generator=rng))

    names = ("by_model", "makes_tail", "clears")
    options = {name: bool(draw(2)) for name in names}
    return Loop(3 + draw(12), per_step=1 + draw(5), epochs=1 + draw(3), **options)


@pytest.mark.parametrize("seed", range(40))
def test_steps_and_samples_are_those_of_the_loop(seed, tmp_path):
    loop = drawn(seed)
    with batchstat.record(tmp_path / "run") as run:
        loop.run()
    counts, facts = run.report.simulation.row.counts, run.report.observed.run
    fates = loop.fates[0]
    assert facts.steps == sum(loop.steps)
    assert run.report.steps_per_epoch == counts.steps == loop.steps[0]
    assert counts.samples == len(fates)
    assert facts.unstepped_samples == sum(fate != 0 for fate in fates)
    samples = {why: number for why, (_, number) in facts.unstepped.items()}
    assert samples.get("were computed and never stepped", 0) == fates.count(None)
    later = samples.get("are in a step that ends in the next epoch", 0)
    assert later == sum(bool(fate) for fate in fates)
    if loop.steps[0]:
        assert run.report.samples_per_step == fates.count(0) / loop.steps[0]
    # The folder says the same.
    assert batchstat.measure(tmp_path / "run").counts.steps == loop.steps[0]


@pytest.mark.parametrize("seed", range(40))
def test_a_dry_run_says_the_same_or_what_it_did_not_see(seed, tmp_path):
    whole, loop = drawn(seed), drawn(seed)
    # With a step in the first epoch: before one, equal batches of several epochs are mixed up.
    for each in (whole, loop):
        each.options["per_step"] = min(each.options["per_step"], len(each.data) // 2)
    whole.run()
    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        loop.run()
    facts, expected = run.report.observed.run, whole.steps[0]
    assert run.report.simulation.row.counts.samples == len(whole.fates[0])
    not_seen = [each for why, each in facts.unstepped.items() if "was not seen" in why]
    if not not_seen:
        assert run.report.steps_per_epoch == expected
        assert facts.unstepped_samples == sum(fate != 0 for fate in whole.fates[0])
    else:  # the loop was ended within its first epoch
        assert len(loop.fates) == 1
        assert run.report.steps_per_epoch == len(whole.data) // 2 // whole.options["per_step"]
        assert not_seen[0][0] == len(whole.data) // 2 % whole.options["per_step"]


def test_without_a_step_nothing_was_trained_and_nothing_is_advised(tmp_path, capsys):
    for dry in (False, True):
        loop = Loop(3, per_step=4, epochs=2, clears=True, by_model=False, makes_tail=False)
        loop.data[::2, 1:] = 0  # rows of one token and of four
        with batchstat.record(tmp_path / str(dry), dry_run=dry) as run:
            loop.run()
        printed = " ".join("".join(capsys.readouterr()).split())
        assert "steps no optimizer step was taken: nothing was trained" in printed
        assert "6 of 6 samples were computed and never stepped: 3 of 3 batches" in printed
        assert "result" not in printed
        assert not run.report.changes.ranked
        assert "schedule/no-step" in [each.id for each in run.report.warnings]


def test_a_dry_run_of_a_loop_that_never_steps_ends(tmp_path, monkeypatch):
    from batchstat.recording.recorder import recorder

    monkeypatch.setattr(recorder, "_MOST_WITHOUT_STEP", 5)
    loop = Loop(9, per_step=99, epochs=50, clears=False, by_model=False, makes_tail=False)
    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        loop.run()
    assert len(run.recording.ranks[0].batches) == 5
    messages = [each.message for each in run.report.warnings]
    assert any("its first 5 batches took no optimizer step" in each for each in messages)


def test_json_has_what_is_in_no_step(tmp_path):
    loop = Loop(7, per_step=4, epochs=2, clears=True, by_model=False, makes_tail=False)
    with batchstat.record(tmp_path / "run") as run:
        loop.run()
    document = preflight_document(run.report)
    run_facts = document["run"]
    unstepped = [run_facts[f"unstepped_{each}"] for each in ("batches", "samples", "tokens")]
    assert unstepped == [3, 6, 24]
    assert run_facts["steps"] == 2
    assert document["strategy"]["steps"] == document["schedule"]["steps_per_epoch"] == 1


def by_hand(model: Any, batches: Any, _: Any) -> None:
    for ids in batches:
        model.zero_grad()
        model(ids).sum().backward()
        for each in model.parameters():
            each.data -= 0.1 * each.grad


def lbfgs(model: Any, batches: Any, _: Any) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for ids in batches:

        def closure(ids: Any = ids) -> Any:
            optimizer.zero_grad()
            loss = (model(ids) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)


def sharpness_aware(model: Any, batches: Any, optimizer: Any) -> None:
    """Computes each batch twice, with gradients cleared between."""
    for ids in batches:
        for _ in range(2):
            optimizer.zero_grad()
            model(ids).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def clipped_per_sample(model: Any, batches: Any, optimizer: Any) -> None:
    """Keeps the gradients of each sample elsewhere."""
    parameters = list(model.parameters())
    for ids in batches:
        kept = [torch.zeros_like(each) for each in parameters]
        for row in ids:
            model(row[None]).sum().backward()
            for total, each in zip(kept, parameters, strict=True):
                total += each.grad
            optimizer.zero_grad()
        for total, each in zip(kept, parameters, strict=True):
            each.grad = total
        optimizer.step()
        optimizer.zero_grad()


def two_optimizers(model: Any, batches: Any, _: Any) -> None:
    """The second one clears only what is its own."""
    one, other = (torch.optim.SGD(each.parameters(), 0.1) for each in model)
    for ids in batches:
        one.zero_grad()
        model(ids).sum().backward()
        other.zero_grad()
        one.step()


@pytest.mark.parametrize(
    ("train", "batches"),
    [
        (by_hand, 8),
        (lbfgs, None),
        (sharpness_aware, 16),
        (clipped_per_sample, 16),
        (two_optimizers, 8),
    ],
)
def test_gradients_that_are_used_are_stepped(
    train: Callable[[Any, Any, Any], None], batches: int | None, tmp_path: Any
) -> None:
    data = torch.arange(1, 1 + 16 * 4).reshape(16, 4)
    model = nn.Sequential(nn.Embedding(200, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if train is not by_hand else None
    with batchstat.record(tmp_path / "run") as run:
        train(model, torch.utils.data.DataLoader(data, 2), optimizer)
    counts = run.report.simulation.row.counts
    assert counts.steps == run.report.observed.run.steps == 8
    assert batches in (None, counts.batches)
    assert run.report.observed.run.unstepped_batches == 0


def test_gradients_cleared_before_each_batch_are_of_the_last_one_alone(tmp_path):
    """zero_grad at the head of a loop that steps on every fourth batch."""
    loop = Loop(8, per_step=4, epochs=1, clears=False, by_model=False, makes_tail=False)
    with batchstat.record(tmp_path / "run") as run:
        for number, ids in enumerate(torch.utils.data.DataLoader(loop.data, 2), 1):
            loop.optimizer.zero_grad()
            loop.model(ids).sum().backward()
            if number % 4 == 0:
                loop.optimizer.step()
    assert run.report.simulation.row.counts.steps == 2
    assert run.report.simulation.basis.gradient_accumulation_steps == 1
    assert run.report.observed.run.unstepped_batches == 6
