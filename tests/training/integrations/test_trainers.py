"""Hugging Face's and Lightning's Trainer see the batches of the plan, in order, also when resumed.

Each test is skipped where its library is not installed.
"""

import json
from inspect import cleandoc
from itertools import chain
from math import ceil
from textwrap import dedent

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, InputError, OptionError, StreamBatcher
from batchstat.profiling.parquet import save_lengths
from batchstat.training.integrations import huggingface, lightning
from batchstat.training.integrations.huggingface import STATE_FILE, with_batches
from batchstat.training.integrations.lightning import BatchLoader
from conftest import ROOT, SAMPLE_DATA, needs, write_jsonl

pytestmark = pytest.mark.torch

LENGTHS = np.random.default_rng(0).integers(2, 60, 203)
SETTINGS = {"tokens_per_batch": 256, "read_ahead": 50}
EPOCHS = 3
DATASET = [
    {"input_ids": [i % 90 + 5] * int(n), "labels": i % 2, "place": i} for i, n in enumerate(LENGTHS)
]


def collate(samples):
    import torch

    longest = max(len(sample["input_ids"]) for sample in samples)
    rows = [s["input_ids"] + [0] * (longest - len(s["input_ids"])) for s in samples]
    return {
        "input_ids": torch.tensor(rows),
        "labels": torch.tensor([s["labels"] for s in samples]),
        "places": torch.tensor([s["place"] for s in samples]),
    }


def sampler_of(accumulate=1, **changed):
    return BatchSampler(LENGTHS, gradient_accumulation_steps=accumulate, **SETTINGS | changed)


def planned(accumulate=1, **changed):
    """The records of all batches, and the numbers of batches and of steps of each epoch."""
    sampler, records, batches = sampler_of(accumulate, **changed), [], []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        records += list(sampler)
        batches.append(len(sampler))
    return records, batches, [ceil(n / accumulate) for n in batches]


def a_model(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(1, 2)
            self.seen = []

        def forward(self, input_ids, labels, places):
            if self.training:
                self.seen.append(places.tolist())
            logits = self.layer(input_ids.float().mean(1, keepdim=True) / 50)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    return Model()


def hugging_face(folder, accumulate=1, sampler=None, dataset=DATASET, **arguments):
    transformers = needs("transformers")
    needs("accelerate")
    options = {
        "save_strategy": "no",
        "num_train_epochs": EPOCHS,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "gradient_accumulation_steps": accumulate,
    }
    trainer = transformers.Trainer(
        a_model(needs("torch")),
        transformers.TrainingArguments(output_dir=folder, **options | arguments),
        train_dataset=dataset,
        eval_dataset=DATASET,
        data_collator=collate,
    )
    return with_batches(trainer, sampler or sampler_of(accumulate))


@pytest.mark.parametrize(("accumulate", "workers"), [(1, 0), (4, 2)])
def test_hugging_face_trains_on_the_plan(tmp_path, accumulate, workers):
    """Epochs differ in their number of batches, and the schedule ends with the last step."""
    trainer = hugging_face(tmp_path, accumulate, dataloader_num_workers=workers)
    trainer.train()
    records, batches, steps = planned(accumulate)
    assert len(set(batches)) > 1
    assert trainer.model.seen == records
    assert trainer.state.global_step == trainer.state.max_steps == sum(steps)
    assert not any(trainer.lr_scheduler.get_last_lr())
    assert trainer.state.epoch == EPOCHS


@pytest.mark.parametrize("accumulate", [1, 4])
def test_hugging_face_goes_on_where_training_was(tmp_path, accumulate):
    """In the middle and at the end of every epoch: the batches that remain, and equal weights."""
    torch = needs("torch")
    records, _, (first, second, third) = planned(accumulate)
    whole = hugging_face(tmp_path, accumulate, save_strategy="steps", save_steps=1)
    whole.train()
    for step in (1, first - 1, first, first + 2, first + second, first + second + third - 1):
        other = hugging_face(tmp_path / "other", accumulate)
        other.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        seen = other.model.seen
        assert 0 < len(seen) < len(records)
        assert seen == records[-len(seen) :]
        assert other.state.global_step == first + second + third
        assert torch.allclose(other.model.layer.weight, whole.model.layer.weight, atol=1e-6)


def test_hugging_face_does_not_go_on_with_other_batches(tmp_path):
    hugging_face(tmp_path, save_strategy="steps", save_steps=5, max_steps=5).train()
    other = hugging_face(tmp_path, sampler=sampler_of(tokens_per_batch=300))
    with pytest.raises(OptionError, match="different sampler.*tokens_per_batch 256 then, 300 now"):
        other.train(resume_from_checkpoint=True)
    (state,) = tmp_path.glob(f"checkpoint-*/{STATE_FILE}")
    state.write_text(state.read_text()[:-9])  # as on a disk that was full
    with pytest.raises(OptionError, match="cannot be read: .*: resume from another checkpoint"):
        hugging_face(tmp_path).train(resume_from_checkpoint=True)


@pytest.mark.parametrize("arguments", [{"max_steps": 80}, {"num_train_epochs": 1.5}])
def test_hugging_face_stops_in_an_epoch(tmp_path, arguments):
    trainer = hugging_face(tmp_path, **arguments)
    trainer.train()
    records, (first, second, _), _ = planned()
    n = arguments.get("max_steps", first + ceil(second / 2))
    assert trainer.model.seen == records[:n]


@pytest.mark.parametrize(("seed", "drop_last"), [(42, False), (7, True)])
def test_the_trainers_own_batches_are_those_of_hf_trainer(tmp_path, seed, drop_last):
    """Without a sampler of batchstat's, over several epochs."""
    transformers = needs("transformers")
    needs("accelerate")
    arguments = transformers.TrainingArguments(
        output_dir=tmp_path,
        seed=seed,
        num_train_epochs=EPOCHS,
        dataloader_drop_last=drop_last,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        remove_unused_columns=False,
    )
    trainer = transformers.Trainer(
        a_model(needs("torch")), arguments, train_dataset=DATASET, data_collator=collate
    )
    trainer.train()
    sampler = BatchSampler(LENGTHS, "hf-trainer", seed=seed, drop_last=drop_last)
    expected = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        expected += list(sampler)
    assert trainer.model.seen == expected


def gradients_of(trainer) -> list:
    """Those of each step, of a model that does not change."""
    transformers = needs("transformers")
    found = []

    class Noting(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, *_, model, **__):
            found.append([each.grad.clone() for each in model.parameters()])

    trainer.add_callback(Noting())
    trainer.train()
    return found


@pytest.mark.parametrize("accumulate", [1, 3])
def test_hugging_face_weighs_means_of_batches_by_samples(tmp_path, accumulate):
    """The gradient of each step is that of one mean over all its samples."""
    torch = needs("torch")
    arguments = {"learning_rate": 0.0, "max_grad_norm": 0.0, "num_train_epochs": 1}
    trainer = hugging_face(tmp_path, accumulate, **arguments)
    found = gradients_of(trainer)
    batches = list(sampler_of(accumulate).batches())
    assert len(found) == batches[-1].step + 1
    for step, gradients in enumerate(found):
        model = a_model(torch)
        losses = []
        for batch in batches:
            if batch.step == step:
                inputs = collate([DATASET[i] for i in batch.records])
                logits = model(**inputs)["logits"]
                losses.append(
                    torch.nn.functional.cross_entropy(logits, inputs["labels"], reduction="none")
                )
        torch.cat(losses).mean().backward()
        for ours, exact in zip(gradients, model.parameters(), strict=True):
            assert torch.allclose(ours, exact.grad, atol=1e-6)


def test_hugging_face_evaluates_as_before(tmp_path):
    trainer = hugging_face(tmp_path, per_device_eval_batch_size=10)
    assert len(trainer.get_eval_dataloader()) == ceil(203 / 10)
    assert trainer.evaluate()["eval_loss"] > 0


def masks_of_trl(folder, rows, **arguments) -> list[list[bool]]:
    """Which tokens of each sample that its trainer keeps carry loss; the tokenizer is saved."""
    trl, datasets = needs("trl"), needs("datasets")
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(definition()), pad_token="<pad>"
    )
    tokenizer.add_special_tokens({"eos_token": "<pad>"})
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder / "tokenizer")
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=512, n_embd=8, n_layer=1, n_head=1
    )
    own = {"report_to": [], "use_cpu": True, "bf16": False}
    trainer = trl.SFTTrainer(
        transformers.AutoModelForCausalLM.from_config(config),
        trl.SFTConfig(output_dir=str(folder), **own, **arguments),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    return [[label != -100 for label in labels] for labels in trainer.train_dataset["labels"]]


@pytest.mark.parametrize("is_chat", [False, True])
def test_trained_tokens_are_those_of_trl(tmp_path, is_chat):
    """Of prompts and completions, also after truncation; TRL drops samples without any."""
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    rows = []
    for i, text in enumerate([line for line in lines if line.strip()][:200]):
        at = len(text) * i // 200
        prompt, rest = text[:at], text[at:] + "<pad>"
        if is_chat:
            prompt, rest = (
                [{"role": role, "content": content}]
                for role, content in (("user", prompt), ("assistant", rest))
            )
        rows.append({"prompt": prompt, "completion": rest})
    masks = masks_of_trl(tmp_path, rows, max_length=64)
    found = batchstat.profile(
        write_jsonl(tmp_path / "rows.jsonl", rows),
        tokenizer=str(tmp_path / "tokenizer"),
        prompt_column="prompt",
        completion_column="completion",
    )
    left = found.trained.counts(stops=64)
    expected = zip(np.minimum(found.lengths, 64).tolist(), left.tolist(), strict=True)
    kept = [(length, trained) for length, trained in expected if trained]
    assert [(len(mask), sum(mask)) for mask in masks] == kept
    assert 0 < len(kept) < len(rows)


def test_assistants_turns_are_those_of_trl(tmp_path):
    """With a template that marks them."""
    lines = (SAMPLE_DATA / "chat.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [{"messages": json.loads(line)["messages"]} for line in lines]
    masks = masks_of_trl(tmp_path, rows, assistant_only_loss=True, max_length=300)
    found = batchstat.profile(
        SAMPLE_DATA / "chat.jsonl",
        tokenizer=str(tmp_path / "tokenizer"),
        messages_column="messages",
        assistant_only_loss=True,
    )
    assert list(map(len, masks)) == np.minimum(found.lengths, 300).tolist()
    for stop in (50, 200, 300):
        assert found.trained.counts(stops=stop).tolist() == [sum(mask[:stop]) for mask in masks]


def test_a_subclass_of_the_trainer(tmp_path):
    """TRL's, with its own collator and preparation of the dataset."""
    trl = needs("trl")
    datasets, transformers, torch = needs("datasets"), needs("transformers"), needs("torch")
    tokenizers = needs("tokenizers")
    # Backward through the built-in vocabulary of 30,000 would take most of the time.
    vocabulary = {"<pad>": 0, **{f"word{i}": i for i in range(1, 120)}}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary)),
        pad_token="<pad>",
        eos_token="<pad>",
    )
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=8, n_layer=1, n_head=1
    )
    shapes = []

    class Training(trl.SFTTrainer):
        def training_step(self, model, inputs, *rest):
            shapes.append(list(inputs["input_ids"].shape))
            return super().training_step(model, inputs, *rest)

    arguments = trl.SFTConfig(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        max_length=64,
    )
    ids = datasets.Dataset.from_list([{"input_ids": each["input_ids"]} for each in DATASET])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    trainer = Training(model, arguments, train_dataset=ids, processing_class=tokenizer)
    with_batches(trainer, sampler_of()).train()
    sampler, expected = sampler_of(), []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        expected += [[len(batch.rows), batch.width] for batch in sampler.batches()]
    assert shapes == expected


def on_lightning(folder, accumulate=1, sampler=None, workers=0, checkpoint=None, **options):
    """Train, with a checkpoint after each step; return the trainer and the records seen."""
    torch, pl = needs("torch"), needs("lightning.pytorch")
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.weights = a_model(torch), []

        def training_step(self, inputs):
            self.weights.append(self.trainer.train_dataloader.batch.weight)
            return self.model(**inputs)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    every = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    trainer = pl.Trainer(
        accelerator="cpu",
        accumulate_grad_batches=accumulate,
        callbacks=[every],
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        **{"max_epochs": EPOCHS, "reload_dataloaders_every_n_epochs": 1} | options,
    )
    sampler = sampler or sampler_of(accumulate)
    loader = BatchLoader(trainer, DATASET, sampler, collate_fn=collate, num_workers=workers)
    model = Model()
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return trainer, model


@pytest.mark.parametrize(("accumulate", "workers"), [(1, 0), (4, 2)])
def test_lightning_trains_on_the_plan(tmp_path, accumulate, workers):
    trainer, made = on_lightning(tmp_path, accumulate, workers=workers)
    records, batches, steps = planned(accumulate)
    assert len(set(batches)) > 1
    assert made.model.seen == records
    assert trainer.global_step == sum(steps)
    sampler, weights = sampler_of(accumulate), []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        weights += [batch.weight for batch in sampler.batches()]
    assert made.weights == weights


@pytest.mark.parametrize("accumulate", [1, 4])
def test_lightning_goes_on_where_training_was(tmp_path, accumulate):
    torch = needs("torch")
    records, _, (first, second, third) = planned(accumulate)
    _, whole = on_lightning(tmp_path, accumulate)
    for step in (1, first - 1, first, first + 2, first + second, first + second + third - 1):
        checkpoint = tmp_path / f"step={step}.ckpt"
        trainer, made = on_lightning(tmp_path / "other", accumulate, checkpoint=checkpoint)
        seen = made.model.seen
        assert 0 < len(seen) < len(records)
        assert seen == records[-len(seen) :]
        assert trainer.global_step == first + second + third
        assert torch.allclose(made.model.layer.weight, whole.model.layer.weight, atol=1e-6)


def test_lightning_does_not_go_on_with_other_batches(tmp_path):
    on_lightning(tmp_path, max_steps=5)
    with pytest.raises(OptionError, match="different sampler.*tokens_per_batch 256 then, 300 now"):
        on_lightning(
            tmp_path,
            sampler=sampler_of(tokens_per_batch=300),
            checkpoint=tmp_path / "step=5.ckpt",
        )


@pytest.mark.parametrize("train", [hugging_face, on_lightning])
@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ({"world_size": 2}, "world_size=2, but the trainer has 1: pass world_size=1"),
        ({"accumulate": 2}, "gradient_accumulation_steps=2, but the trainer has 1"),
    ],
)
def test_a_sampler_for_another_run(tmp_path, train, sampler, message):
    with pytest.raises(OptionError, match=message):
        train(tmp_path, sampler=sampler_of(**sampler))


def test_steps_that_no_trainer_takes(tmp_path):
    grouped = BatchSampler(LENGTHS, "asym", **SETTINGS)
    with pytest.raises(InputError, match=r"different numbers of batches.*BatchSampler\.batches"):
        hugging_face(tmp_path, sampler=grouped).train()
    with pytest.raises(InputError, match=r"different numbers of batches.*BatchSampler\.batches"):
        on_lightning(tmp_path, sampler=grouped)


def test_what_is_not_a_trainer(tmp_path):
    needs("torch")
    with pytest.raises(OptionError, match="list is not a transformers Trainer"):
        with_batches([], sampler_of())
    with pytest.raises(OptionError, match="list is not a Lightning Trainer"):
        BatchLoader([], DATASET, sampler_of())
    stream = StreamBatcher(DATASET, length="input_ids", tokens_per_batch=256)
    with pytest.raises(OptionError, match="StreamBatcher is not a BatchSampler"):
        hugging_face(tmp_path, sampler=stream)
    with pytest.raises(InputError, match="the dataset has 202 samples"):
        hugging_face(tmp_path, dataset=DATASET[:-1])
    with pytest.raises(OptionError, match="pass reload_dataloaders_every_n_epochs=1"):
        on_lightning(tmp_path, reload_dataloaders_every_n_epochs=0)


RANKS = """
import json, os, sys
sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/helpers", f"{sys.argv[1]}/training/integrations"]
import torch
import test_trainers as tests
from batchstat.training.integrations.huggingface import STATE_FILE, with_batches
from batchstat.training.integrations.lightning import BatchLoader

folder = sys.argv[2]
rank = int(os.environ["RANK"])
if sys.argv[3] == "hugging_face":
    sampler = tests.sampler_of(2, rank=rank, world_size=2)
    trainer = tests.hugging_face(folder, 2, sampler=sampler, save_strategy="steps", save_steps=7)
    trainer.train()
    seen, steps = trainer.model.seen, trainer.state.global_step
    trainer = tests.hugging_face(folder + "/other", 2, sampler=sampler)
    trainer.train(resume_from_checkpoint=folder + "/checkpoint-14")
    again = trainer.model.seen
else:
    sampler = tests.sampler_of(2, rank=rank, world_size=2)
    trainer, made = tests.on_lightning(folder, 2, sampler=sampler, devices=2)
    seen, steps = made.model.seen, trainer.global_step
    checkpoint = folder + "/step=14.ckpt"
    _, made = tests.on_lightning(folder, 2, sampler=sampler, devices=2, checkpoint=checkpoint)
    again = made.model.seen
with open(f"{folder}/rank{rank}.json", "w") as file:
    json.dump({"seen": seen, "steps": steps, "again": again}, file)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize("library", ["hugging_face", "lightning"])
def test_two_processes_have_the_batches_of_their_ranks(warm_python, tmp_path, library):
    """Nothing shards the batches of a rank again, and both end and resume together."""
    (script := tmp_path / "train.py").write_text(RANKS)
    warm_python.run(script, ROOT / "tests", tmp_path, library, ranks=2)
    for rank in range(2):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        records, batches, steps = planned(2, rank=rank, world_size=2)
        assert found["seen"] == records
        assert found["steps"] == sum(steps)
        first, within = batches[0], 2 * (14 - steps[0])
        assert steps[0] < 14 < steps[0] + steps[1]
        assert found["again"] == records[first + within :]


def example_in(text):
    """The lines of a docstring that are indented most."""
    lines = [line for line in cleandoc(text).splitlines() if line.startswith("    ")]
    return dedent("\n".join(lines))


def test_the_examples_for_hugging_face(tmp_path, monkeypatch):
    trainer = hugging_face(tmp_path)
    examples = [huggingface.__doc__, with_batches.__doc__.partition("Args:")[0]]
    names = {**vars(huggingface), "trainer": trainer, "sampler": sampler_of()}
    write_lengths(tmp_path / "batchstat-results")
    monkeypatch.chdir(tmp_path)
    for example in examples:
        exec(example_in(example), names)  # noqa: S102
        assert trainer.model.seen
        trainer.model.seen.clear()


def test_the_examples_for_lightning(tmp_path, monkeypatch):
    pl = needs("lightning.pytorch")
    torch = needs("torch")

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = a_model(torch)

        def training_step(self, inputs):
            return self.model(**inputs)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    model = Model()
    write_lengths(tmp_path / "batchstat-results")
    monkeypatch.chdir(tmp_path)
    names = {"model": model, "dataset": DATASET, "collate": collate, "Trainer": pl.Trainer}
    names = {**vars(lightning), **names}
    exec(example_in(lightning.__doc__), names)  # noqa: S102
    assert sorted(chain(*model.model.seen)) == sorted([*range(203)] * 3)
    names["LightningModule"] = Model
    exec(example_in(BatchLoader.__doc__.partition("Attributes:")[0]), names)  # noqa: S102
    made = names["Model"]()
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", reload_dataloaders_every_n_epochs=1)
    names["sampler"] = sampler_of()
    trainer.fit(made)
    assert made.model.seen == list(sampler_of())


def write_lengths(folder):
    """A profile of texts with one sample for each of the dataset."""
    text = folder.parent / "corpus.txt"
    text.write_text("".join("word " * n + "\n" for n in LENGTHS.tolist()))
    folder.mkdir()
    with (folder / "lengths.parquet").open("wb") as file:
        save_lengths(batchstat.profile(str(text)), file)
