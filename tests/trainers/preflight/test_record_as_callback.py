"""`record` as a callback of the Trainers of transformers and Lightning: what it prints and logs is
what was planned, and training stays as it is.
"""

import csv
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, InputError, OptionError
from batchstat.recording.recording import read_recording
from batchstat.trainers.preflight import live_recording
from batchstat.training.integrations.huggingface import with_batches
from batchstat.training.integrations.lightning import BatchLoader
from conftest import ROOT, needs

for _library in ("transformers", "accelerate", "lightning.pytorch"):
    needs(_library)

pytestmark = pytest.mark.torch

LENGTHS = np.random.default_rng(0).integers(2, 40, 90)
DATASET = [{"input_ids": [i % 50 + 5] * int(n), "labels": i % 2} for i, n in enumerate(LENGTHS)]
EPOCHS = 3
BUDGET = {"tokens_per_batch": 160}
PADDING, SPEED_UP = "batchstat/padding_ratio", "batchstat/speed_up"
FRAMEWORKS = ["transformers", "lightning"]


def collate(samples: list[Any]) -> dict[str, Any]:
    import torch

    rows = [torch.tensor(sample["input_ids"]) for sample in samples]
    return {
        "input_ids": torch.nn.utils.rnn.pad_sequence(rows, batch_first=True),
        "attention_mask": torch.nn.utils.rnn.pad_sequence(
            [torch.ones_like(row) for row in rows], batch_first=True
        ),
        "labels": torch.tensor([sample["labels"] for sample in samples]),
    }


def a_model() -> Any:
    torch = needs("torch")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.out = torch.nn.Embedding(60, 4), torch.nn.Linear(4, 2)

        def forward(self, input_ids: Any, attention_mask: Any, labels: Any) -> Any:
            logits = self.out((self.embed(input_ids) * attention_mask[..., None]).sum(1))
            return {"loss": torch.nn.functional.cross_entropy(logits, labels)}

    return Model()


def transformers_trainer(callbacks: list[Any], accumulate: int = 1, **arguments: Any) -> Any:
    transformers = needs("transformers")
    options = {
        "save_strategy": "no",
        "num_train_epochs": EPOCHS,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "logging_steps": 1,
        "gradient_accumulation_steps": accumulate,
    }
    return transformers.Trainer(
        a_model(),
        transformers.TrainingArguments(output_dir="out", **options | arguments),
        train_dataset=DATASET,
        data_collator=collate,
        callbacks=callbacks,
    )


def train_transformers(callbacks: list[Any], sampler: Any = None, **options: Any) -> list[Any]:
    """Train; return what was logged, without times."""
    trainer = transformers_trainer(callbacks, **options)
    (trainer if sampler is None else with_batches(trainer, sampler)).train()
    return [line for line in trainer.state.log_history if "train_runtime" not in line]


def train_lightning(
    callbacks: list[Any], sampler: Any = None, accumulate: int = 1, **options: Any
) -> list[Any]:
    """Train; return what was logged."""
    torch, pl = needs("torch"), needs("lightning.pytorch")
    from lightning.pytorch.loggers import CSVLogger

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = a_model()

        def training_step(self, inputs: Any) -> Any:
            loss = self.model(**inputs)["loss"]
            self.log("loss", loss, on_step=True, batch_size=1)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        accumulate_grad_batches=accumulate,
        enable_model_summary=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
        **{
            "logger": CSVLogger("logs"),
            "max_epochs": EPOCHS,
            "reload_dataloaders_every_n_epochs": 1,
        }
        | options,
    )
    if sampler is None:
        torch.manual_seed(0)
        loader = torch.utils.data.DataLoader(DATASET, 8, shuffle=True, collate_fn=collate)
    else:
        loader = BatchLoader(trainer, DATASET, sampler, collate_fn=collate)
    trainer.fit(Module(), loader)
    if trainer.logger is None:
        return []
    with (Path(trainer.logger.log_dir) / "metrics.csv").open() as file:
        lines = [{k: float(v) for k, v in line.items() if v} for line in csv.DictReader(file)]
    return [{**line, "step": line["step"] + 1} for line in lines]  # Lightning counts from 0


TRAIN = {"transformers": train_transformers, "lightning": train_lightning}


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def planned(strategy: str, **settings: Any) -> list[Any]:
    """The row of each epoch."""
    return [
        batchstat.compare(LENGTHS, strategies=[strategy], epoch=epoch, **settings)[strategy]
        for epoch in range(EPOCHS)
    ]


def counts_of(row: Any) -> dict[str, Any]:
    """What was computed; not what depends on settings that a recording does not have."""
    of_settings = {"tokens_per_batch", "over_budget_batches", "row_tokens"}
    names = {field.name for field in fields(row.counts)} - of_settings
    return {name: getattr(row.counts, name) for name in sorted(names)}


def printed(capsys: Any) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("batchstat: ")]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("strategy", "accumulate", "seed"),
    [("token-budget", 1, 0), ("static:batch_size=6", 3, 5), ("bucketed:batch_size=4", 2, 0)],
)
def test_every_epoch_is_the_simulated_one(framework, strategy, accumulate, seed, capsys):
    settings = {**BUDGET, "seed": seed, "gradient_accumulation_steps": accumulate}
    sampler, rows = BatchSampler(LENGTHS, strategy, **settings), planned(strategy, **settings)
    logged = TRAIN[framework]([batchstat.record("run")], sampler, accumulate=accumulate)
    lines = [line for line in logged if PADDING in line]
    ratios = [row.counts.padding_ratio for row in rows]
    single = framework == "lightning"  # whose numbers are tensors of 32 bits
    expected = [float(np.float32(ratio)) if single else ratio for ratio in ratios]
    assert [line[PADDING] for line in lines] == expected
    assert [line["step"] for line in lines] == np.cumsum(
        [row.counts.steps for row in rows]
    ).tolist()
    assert counts_of(batchstat.measure("run")) == counts_of(rows[0])
    said = printed(capsys)
    assert [line.split(";")[0] for line in said] == [f"batchstat: {x:.1%} padding" for x in ratios]
    for text, line in zip(said, lines, strict=True):
        assert ("faster" in text) == (SPEED_UP in line)
        assert f" {line.get(SPEED_UP, 1):.2f}x" in f"{text} 1.00x"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_first_epoch_is_that_of_the_report(framework):
    callback = batchstat.record("run")
    logged = TRAIN[framework]([callback])
    first = next(line for line in logged if PADDING in line)
    report = callback.run.report
    assert first[PADDING] == pytest.approx(batchstat.measure("run").counts.padding_ratio)
    assert first[PADDING] == pytest.approx(report.simulation.row.counts.padding_ratio)
    assert first[SPEED_UP] == pytest.approx(report.changes.advised.speed_up)
    assert report.changes.advised.speed_up > 1.2


@pytest.mark.parametrize(
    ("framework", "options"),
    [
        ("transformers", {}),
        ("transformers", {"logging_strategy": "epoch", "accumulate": 2}),
        ("lightning", {"accumulate": 2}),
    ],
)
def test_losses_are_the_same_to_the_bit(framework, options):
    plain = TRAIN[framework]([], **options)
    with_callback = TRAIN[framework]([batchstat.record("run")], **options)
    own = [line for line in with_callback if PADDING not in line]
    assert own == [line for line in plain if PADDING not in line]
    assert len([line for line in own if "loss" in line]) >= EPOCHS
    assert len(with_callback) == len(own) + EPOCHS


def test_what_trl_gathers_for_its_own_log_is_left_to_it():
    trl = needs("trl")
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM

    from chat_tokenizer import chat_tokenizer

    tokenizer = chat_tokenizer()
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    data = Dataset.from_list([{"text": "a word " * (1 + i % 9)} for i in range(30)])

    def logged(*callbacks: Any) -> list[Any]:
        needs("torch").manual_seed(0)
        config = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=1, **shape)
        options = {"report_to": [], "use_cpu": True, "bf16": False, "save_strategy": "no"}
        trainer = trl.SFTTrainer(
            LlamaForCausalLM(config),
            trl.SFTConfig("out", num_train_epochs=2, logging_steps=3, disable_tqdm=True, **options),
            train_dataset=data,
            processing_class=tokenizer,
            callbacks=[*callbacks],
        )
        trainer.train()
        return [line for line in trainer.state.log_history if "loss" in line]

    plain = logged()
    assert "mean_token_accuracy" in plain[0]
    assert logged(batchstat.record("run")) == plain


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_everything_is_put_back(framework, monkeypatch):
    torch = needs("torch")
    before = vars(torch.nn.Module)["__call__"], torch.autograd.backward
    during = []

    class Notes(live_recording.LiveRecording):
        """Asks while it records."""

        def _end_epoch(self) -> dict[str, float]:
            during.append((vars(torch.nn.Module)["__call__"], torch.autograd.backward))
            return super()._end_epoch()

    monkeypatch.setattr(live_recording, "LiveRecording", Notes)
    TRAIN[framework]([batchstat.record("run")])
    assert len(during) == EPOCHS
    assert not {*during[0]} & {*before}
    assert (vars(torch.nn.Module)["__call__"], torch.autograd.backward) == before


def test_what_a_failing_training_of_lightning_replaced_is_put_back():
    torch, pl = needs("torch"), needs("lightning.pytorch")

    class Fails(pl.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            raise KeyError("as a loop of the user's")

    before = vars(torch.nn.Module)["__call__"]
    with pytest.raises(KeyError):
        train_lightning([batchstat.record("run"), Fails()])
    assert vars(torch.nn.Module)["__call__"] is before
    assert len(read_recording(Path("run")).ranks[0].batches) == 1


def test_a_training_that_begins_again_replaces_its_recording():
    """Also after an error, of which transformers tells no callback."""
    torch, transformers = needs("torch"), needs("transformers")
    before = vars(torch.nn.Module)["__call__"]

    class FailsOnce(transformers.TrainerCallback):
        has_failed = False

        def on_step_end(self, *_: Any, **__: Any) -> None:
            if not self.has_failed:
                self.has_failed = True
                raise KeyError("out of memory")

    callback = batchstat.record("run")
    trainer = transformers_trainer([callback, FailsOnce()])
    with pytest.raises(KeyError):
        trainer.train()
    for _ in range(2):
        trainer.train()
        assert vars(torch.nn.Module)["__call__"] is before
        assert batchstat.measure("run").counts.samples == len(DATASET)
        assert len([line for line in trainer.state.log_history if PADDING in line]) == EPOCHS


def test_the_trainer_says_of_itself_what_it_says_in_a_block():
    found = []
    trainer = transformers_trainer([batchstat.record("callback")])
    trainer.train()
    with batchstat.record("block"):
        transformers_trainer([]).train()
    for folder in ("callback", "block"):
        [rank] = read_recording(Path(folder)).ranks
        found.append((rank.trainer, [(batch.step, batch.numbers) for batch in rank.batches]))
    assert found[0] == found[1]


@pytest.mark.parametrize("options", [{"dry_run": True}, {"steps": 3}])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_callback_cannot_end_training(framework, options):
    with pytest.raises(OptionError, match="dry_run and steps end a block"):
        TRAIN[framework]([batchstat.record("run", **options)])
    assert not Path("run").exists()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_named_folder_that_holds_another_recording_is_refused(framework):
    TRAIN[framework]([batchstat.record("run")])
    with pytest.raises(InputError, match="holds the recording of another run"):
        TRAIN[framework]([batchstat.record("run")])
    assert batchstat.measure("run").counts.samples == len(DATASET)


def test_a_trainer_that_is_imported_later_is_named_as_the_reason(monkeypatch):
    monkeypatch.setattr(live_recording, "_CALLBACKS", {})
    with pytest.raises(AttributeError, match="import the trainer's library before"):
        train_transformers([batchstat.record("run")])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_goes_on_without_numbers(framework, monkeypatch, capsys):
    monkeypatch.setattr(live_recording, "report_on", lambda _: 1 / 0)
    logged = TRAIN[framework]([batchstat.record("run")])
    assert not [line for line in logged if PADDING in line]
    assert (
        printed(capsys)
        == ["batchstat: no numbers of this epoch: ZeroDivisionError('division by zero')"] * EPOCHS
    )


RANKS = """
import json, os, sys
sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/helpers", f"{sys.argv[1]}/trainers/preflight"]
import test_record_as_callback as tests

rank, framework = int(os.environ["RANK"]), sys.argv[3]
os.chdir(sys.argv[2])
callback = tests.batchstat.record("run")
sampler = tests.BatchSampler(
    tests.LENGTHS, "token-budget", rank=rank, world_size=2, gradient_accumulation_steps=2,
    **tests.BUDGET
)
if framework == "lightning":  # whose logger writes on the first rank alone
    import lightning.pytorch as pl

    class Notes(pl.Callback):
        def on_train_epoch_end(self, trainer, _):
            noted.append(float(trainer.callback_metrics[tests.PADDING]))

    noted = []
    tests.train_lightning([callback, Notes()], sampler, 2, devices=2, logger=False)
else:
    lines = tests.train_transformers([callback], sampler, accumulate=2)
    noted = [line[tests.PADDING] for line in lines if tests.PADDING in line]
with open(f"rank{rank}.json", "w") as file:
    json.dump(noted, file)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_all_ranks_log_the_numbers_of_all_and_the_first_prints(warm_python, tmp_path, framework):
    (script := tmp_path / "train.py").write_text(RANKS)
    warm_python.run(script, ROOT / "tests", tmp_path, framework, ranks=2)
    settings = {**BUDGET, "world_size": 2, "gradient_accumulation_steps": 2}
    rows = planned("token-budget", **settings)
    ratios = [row.counts.padding_ratio for row in rows]
    for rank in range(2):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert found == pytest.approx(ratios, rel=1e-6)
        said = (tmp_path / f"{rank}.err").read_text().count("batchstat: ")
        assert said == (EPOCHS if rank == 0 else 0)
    assert counts_of(batchstat.measure("run")) == counts_of(rows[0])
