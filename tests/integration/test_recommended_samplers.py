"""Every sampler that a screen recommends, trained with in the loop that it is for: the batches that
are trained are those that were promised.
"""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, InputError
from conftest import needs
from tables import in_turn

pytestmark = pytest.mark.torch

LENGTHS = np.clip(np.random.default_rng(3).lognormal(3, 0.9, 120), 1, 150).astype(int).tolist()
DATA = [{"input_ids": [5 + i % 40] * n} for i, n in enumerate(LENGTHS)]


def collate(samples: list[dict[str, list[int]]]) -> Any:
    import torch

    rows = [sample["input_ids"] for sample in samples]
    width = max(map(len, rows))
    return {
        "input_ids": torch.tensor([row + [0] * (width - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows]),
    }


def sorted_in_batches(samples: list[dict[str, list[int]]]) -> Any:
    """As torch's pack_padded_sequence wants them."""
    return collate(sorted(samples, key=lambda sample: -len(sample["input_ids"])))


def without_the_last(samples: list[dict[str, list[int]]]) -> Any:
    return collate(samples[:-1] or samples)


def twice(samples: list[dict[str, list[int]]]) -> Any:
    return collate([*samples, *samples])


def loader(**options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(DATA, **{"batch_size": 4, "collate_fn": collate, **options})


def a_model() -> Any:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(64, 4)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            hidden = self.embedding(input_ids) * attention_mask[..., None]
            return {"loss": hidden.mean()}

    return Model()


def train(batches: Any, step: Any = None) -> None:
    import torch

    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches:
        loss = model(**batch)["loss"]
        (step or torch.Tensor.backward)(loss)
        optimizer.step()
        optimizer.zero_grad()


def in_torch(lines: str) -> None:
    names: dict[str, Any] = {"dataset": DATA, "collate": collate}
    exec(lines, names)  # noqa: S102
    train(names["loader"])


def in_accelerate(lines: str) -> None:
    accelerator = needs("accelerate").Accelerator(cpu=True)
    names: dict[str, Any] = {"dataset": DATA, "collate": collate, "accelerator": accelerator}
    exec(lines, names)  # noqa: S102
    train(names["loader"], accelerator.backward)


def in_trainer(lines: str) -> None:
    transformers = needs("transformers")
    arguments = transformers.TrainingArguments(
        "out", report_to="none", save_strategy="no", num_train_epochs=1, use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(a_model(), arguments, collate, DATA)
    exec(lines, {"trainer": trainer})  # noqa: S102


def in_lightning(lines: str) -> None:
    pl = needs("lightning.pytorch")
    import torch

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = a_model()

        def training_step(self, batch: Any, _: int) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = pl.Trainer(
        max_epochs=1, reload_dataloaders_every_n_epochs=1, accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    exec(lines, {"dataset": DATA, "collate": collate, "trainer": trainer, "model": Module()})  # noqa: S102


LOOPS = {
    "torch": in_torch,
    "accelerate": in_accelerate,
    "trainer": in_trainer,
    "lightning": in_lightning,
}
COUNTS = ("total_tokens", "real_tokens", "batches", "samples", "max_batch_tokens")


def quietly(call: Any, *args: Any, **options: Any) -> Any:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return call(*args, **options)


def record(folder: Any, loop: Any, *args: Any) -> None:
    with batchstat.record(folder):
        loop(*args)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A run that shuffled its data set, compared with what could replace it."""
    monkeypatch.chdir(tmp_path)
    quietly(record, tmp_path / "run", train, loader(shuffle=True))
    return tmp_path


@in_turn("framework", LOOPS)
def test_a_recipe_of_a_recording_trains_what_was_compared(framework, recorded, run):
    compared = run("compare", "--current", "run", "--no-plots", "--json")
    assert compared.returncode == 0, compared.stderr
    document = json.loads(compared.stdout)
    printed = run("recipe", framework)
    assert printed.returncode == 0, printed.stderr
    quietly(record, recorded / framework, LOOPS[framework], printed.stdout)
    [best] = [row for row in document["strategies"] if row["label"] == document["choice"]["best"]]
    measured = batchstat.measure(recorded / framework).counts
    assert {key: getattr(measured, key) for key in COUNTS} == {key: best[key] for key in COUNTS}
    [current] = [
        row for row in document["strategies"] if row["label"] == document["choice"]["current"]
    ]
    assert best["padding_ratio"] < 0.3 < current["padding_ratio"]


def test_every_row_of_a_recording_that_has_a_sampler(recorded):
    made = batchstat.compare(
        current=recorded / "run", strategies=["bucketed", "token-budget", "static"]
    )
    for row in made:
        if row is made.current:
            with pytest.raises(batchstat.OptionError, match="epoch that was recorded"):
                made.sampler(row.label)
            continue
        counts = batchstat.measure(
            loader(batch_size=1, batch_sampler=made.sampler(row.label))
        ).counts
        assert {key: getattr(counts, key) for key in COUNTS} == {
            key: getattr(row.counts, key) for key in COUNTS
        }


def test_the_steps_of_given_batches_regrouped():
    """What a screen says of steps that no command can make: `compare(…).sampler()` does."""
    needs("torch")
    batches = [list(range(first, first + 4)) for first in range(0, 120, 4)]
    made = batchstat.compare(
        LENGTHS, current=("mine", batches), strategies=["regrouped"], gradient_accumulation_steps=5
    )
    regrouped = made["regrouped:of=mine"]
    counts = batchstat.measure(
        loader(batch_size=1, batch_sampler=made.sampler("regrouped:of=mine")),
        gradient_accumulation_steps=5,
    ).counts
    assert {key: getattr(counts, key) for key in COUNTS} == {
        key: getattr(regrouped.counts, key) for key in COUNTS
    }


def samplers() -> dict[str, dict[str, Any]]:
    """Options of loaders whose rows are items of the data set."""
    from torch.utils.data import DistributedSampler, SubsetRandomSampler, WeightedRandomSampler

    return {
        "in sequence": {},
        "shuffled": {"shuffle": True},
        "two workers": {"shuffle": True, "num_workers": 2},
        "a part": {"sampler": SubsetRandomSampler(range(30, 90))},
        "one rank of two": {"sampler": DistributedSampler(DATA, 2, 1)},
        "each once": {"sampler": WeightedRandomSampler([1.0] * 120, 50, replacement=False)},
        "own batches": {
            "batch_size": 1,
            "batch_sampler": BatchSampler(LENGTHS, "bucketed", batch_size=4),
        },
    }


def test_the_profile_of_a_loader_indexes_its_data_set(subtests):
    needs("torch")
    for name, options in samplers().items():
        with subtests.test(name):
            report = quietly(batchstat.preflight, loader(**options))
            profile = report.profile
            assert profile.is_indexed
            assert [LENGTHS[record] for record in profile.records] == profile.lengths.tolist()
            changes = {each.row.label: each.row for each in report.changes.ranked}
            for label, row in changes.items():
                if label not in ("bucketed", "token-budget"):
                    continue
                basis = report.simulation.basis
                sampler = BatchSampler(
                    profile, label, order="file", tokens_per_batch=basis.tokens_per_batch,
                    batch_size=basis.batch_size,
                )  # fmt: skip
                counts = batchstat.measure(loader(batch_size=1, batch_sampler=sampler)).counts
                assert {key: getattr(counts, key) for key in COUNTS} == {
                    key: getattr(row.counts, key) for key in COUNTS
                }
            assert "bucketed" in changes or name == "own batches"


def test_a_loop_that_skips_batches_knows_those_that_it_keeps():
    needs("torch")
    kept = (batch for i, batch in enumerate(loader(shuffle=True)) if i % 3)
    profile = quietly(batchstat.preflight, kept).profile
    assert profile.is_indexed
    assert [LENGTHS[record] for record in profile.records] == profile.lengths.tolist()


def streamed() -> Any:
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset):
        def __iter__(self) -> Any:
            return iter(DATA)

    return Stream()


def unknown() -> dict[str, Any]:
    """Batches whose rows are not known to be items of a data set."""
    from torch.utils.data import DataLoader, RandomSampler

    return {
        "a stream": DataLoader(streamed(), 4, collate_fn=collate),
        "drawn again": loader(sampler=RandomSampler(DATA, replacement=True)),
        "rows dropped": loader(shuffle=True, collate_fn=without_the_last),
        "rows made twice": loader(shuffle=True, collate_fn=twice),
        "rows sorted": loader(shuffle=True, collate_fn=sorted_in_batches),
        "no sampler": [collate(DATA[first : first + 4]) for first in range(0, 120, 4)],
    }


REFUSED = (
    "numbered as they were read, and index no data set: profile its corpus, or pass the lengths"
)


def test_a_profile_that_indexes_nothing_is_refused_where_samples_are_drawn(subtests):
    needs("torch")
    for name, batches in unknown().items():
        with subtests.test(name):
            profile = quietly(batchstat.preflight, batches).profile
            assert not profile.is_indexed
            assert profile.records.tolist() == list(range(len(profile)))
            with pytest.raises(InputError, match=REFUSED):
                BatchSampler(profile, "bucketed", batch_size=4)
            with pytest.raises(InputError, match=REFUSED):
                batchstat.compare(profile).sampler()
            with pytest.raises(InputError, match=REFUSED):
                batchstat.measure([[0, 1], [2, 3]], profile)
