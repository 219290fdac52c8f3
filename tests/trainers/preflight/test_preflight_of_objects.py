"""`preflight` of trainers' objects and of loaders, against the batches of their own loaders."""

import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import InputError
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_batches import plan_ranks
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.recording import trainer_object
from batchstat.render.printed import line_of
from batchstat.trainers.preflight.report import Preflight
from conftest import SAMPLE_DATA, needs
from trainers import Batch, batches_in, loaders_of, recorded, save_tokenizer

pytestmark = pytest.mark.torch

SHAPE = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
}
OPTIONS = {"report_to": [], "use_cpu": True, "bf16": False}
LONGEST = 96


class Bench:
    """What trainers are made of."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

        self.folder = folder
        self.tokenizer = AutoTokenizer.from_pretrained(save_tokenizer(folder / "tokenizer"))
        self.model = LlamaForCausalLM(LlamaConfig(vocab_size=len(self.tokenizer), **SHAPE))
        lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
        self.texts = [line[: 5 + 37 * i % 400] for i, line in enumerate(lines[:101]) if line]
        chats = (SAMPLE_DATA / "conversations.jsonl").read_text(encoding="utf-8").splitlines()
        self.chats = [json.loads(line)["messages"] for line in chats]

    def tokenized(self, padding: Any = False) -> Any:
        from datasets import Dataset

        def tokenize(samples: dict[str, list[str]]) -> Any:
            return self.tokenizer(
                samples["text"], truncation=True, max_length=LONGEST, padding=padding
            )

        made = Dataset.from_dict({"text": self.texts})
        return made.map(tokenize, batched=True, batch_size=40, remove_columns=["text"])

    def plain(self, padding: Any = False, **keys: Any) -> Any:
        from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

        collator = keys.pop("collator", None)
        multiple = keys.pop("multiple", None)
        arguments = keys.pop("arguments", TrainingArguments)
        data = keys.pop("data", None)
        made: type[Any] = keys.pop("made", Trainer)
        more = {key: keys.pop(key) for key in ("compute_loss_func",) if key in keys}
        return made(
            keys.pop("model", self.model),
            arguments(output_dir=str(self.folder / "out"), **OPTIONS, **keys),
            data_collator=collator
            or DataCollatorForLanguageModeling(
                self.tokenizer, mlm=False, pad_to_multiple_of=multiple
            ),
            train_dataset=self.tokenized(padding) if data is None else data,
            **more,
        )

    def sft(self, kind: str = "text", **keys: Any) -> Any:
        from datasets import Dataset
        from trl import SFTConfig, SFTTrainer

        rows = {
            "text": [{"text": text} for text in self.texts],
            "pairs": [
                {"prompt": text[: len(text) // 3], "completion": text[len(text) // 3 :]}
                for text in self.texts
            ],
            "chats": [{"messages": messages} for messages in self.chats],
        }[kind]
        return SFTTrainer(
            self.model,
            SFTConfig(output_dir=str(self.folder / "out"), **OPTIONS, **keys),
            train_dataset=Dataset.from_list(rows),
            processing_class=self.tokenizer,
        )


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    needs("torch")
    needs("trl")
    return Bench(tmp_path_factory.mktemp("bench"))


def printed(target: Any, **given: Any) -> tuple[Preflight, dict[str, str]]:
    """The report of an object, and the lines that it prints by the word before them."""
    with redirect_stdout(StringIO()) as text:
        report = batchstat.preflight(target, **given)
    lines: dict[str, str] = {}
    word = ""
    for line in text.getvalue().splitlines():
        word = line[:9].strip() or word
        lines[word] = f"{lines.get(word, '')} {line[9:].strip()}".strip()
    return report, lines


def batches_of(report: Preflight, rank: int) -> Iterator[Batch]:
    """The batches of a rank as a report has them: widths, tokens of rows, tokens with a loss."""
    yield from batches_by(report, report.simulation.row.request, rank)


def batches_by(report: Preflight, request: RowRequest, rank: int) -> Iterator[Batch]:
    samples = resolve_inputs(report.samples.profile).samples
    mine = plan_ranks(make_shares(samples, request.settings), request).of_rank(rank)
    of_row = np.add.reduceat(mine.lengths, mine.row_offsets[:-1])
    for place in range(len(mine)):
        rows = slice(mine.batch_offsets[place], mine.batch_offsets[place + 1])
        entries = slice(mine.row_offsets[rows.start], mine.row_offsets[rows.stop])
        trained = int(mine.loss_tokens[entries].sum())
        yield int(mine.widths[place]), of_row[rows].tolist(), trained


EIGHT = {"per_device_train_batch_size": 8}
PLAIN: dict[str, tuple[dict[str, Any], int]] = {
    "dynamic": (EIGHT, 1),
    "a multiple": ({**EIGHT, "multiple": 64}, 1),
    "max_length": ({**EIGHT, "padding": "max_length"}, 1),
    "max_length, one by one": ({"per_device_train_batch_size": 1, "padding": "max_length"}, 1),
    "the longest of a map's batch": ({**EIGHT, "padding": True}, 1),
    "accumulation": ({"per_device_train_batch_size": 3, "gradient_accumulation_steps": 4}, 1),
    "drop_last": ({**EIGHT, "dataloader_drop_last": True}, 1),
    "another seed": ({**EIGHT, "seed": 9}, 1),
    "file order": ({**EIGHT, "train_sampling_strategy": "sequential"}, 1),
    "two ranks": ({"per_device_train_batch_size": 4}, 2),
    "two ranks, padded": ({"per_device_train_batch_size": 4, "padding": "max_length"}, 2),
    "three ranks, padded": ({"per_device_train_batch_size": 2, "padding": True}, 3),
}
SFT: dict[str, tuple[str, dict[str, Any], int]] = {
    "plain": ("text", {**EIGHT, "max_length": 64}, 1),
    "plain, two ranks": ("text", {"per_device_train_batch_size": 4, "max_length": 64}, 2),
    "bfd": ("text", {"max_length": 64, "packing": True, **EIGHT}, 1),
    "bfd, two ranks": ("text", {"max_length": 64, "packing": True}, 2),
    "bfd_split": ("text", {"max_length": 64, "packing": True, "packing_strategy": "bfd_split"}, 1),
    "wrapped": ("text", {"max_length": 64, "packing": True, "packing_strategy": "wrapped"}, 1),
    "padding_free": ("text", {"max_length": None, "padding_free": True, **EIGHT}, 1),
    "padding_free, one by one": (
        "text",
        {"max_length": None, "padding_free": True, "per_device_train_batch_size": 1},
        1,
    ),
    "padding_free, a multiple": (
        "text",
        {"max_length": None, "padding_free": True, "pad_to_multiple_of": 64, **EIGHT},
        2,
    ),
    "assistant_only_loss": ("chats", {"max_length": 120, "assistant_only_loss": True}, 1),
    "assistant_only_loss, bfd": (
        "chats",
        {"max_length": 200, "assistant_only_loss": True, "packing": True},
        1,
    ),
    "pairs": ("pairs", {"max_length": 48, **EIGHT}, 1),
    "pairs, all trained": ("pairs", {"max_length": 48, "completion_only_loss": False}, 1),
    "pairs, bfd": ("pairs", {"max_length": 96, "packing": True}, 2),
}


def check(trainer: Any, ranks: int) -> Preflight:
    """A report has the batches of the trainer's own loaders, and leaves these as they were."""
    expected = [recorded(trainer, loader) for loader in loaders_of(trainer, ranks)]
    report, lines = printed(trainer, world_size=ranks)
    assert "its prepared data set was read" in lines["trainer"]
    assert [list(batches_of(report, rank)) for rank in range(ranks)] == expected
    steps = trainer.set_initial_training_values(trainer.args, loaders_of(trainer, ranks)[0])[-1]
    assert report.total_steps == steps
    return report


@pytest.mark.parametrize("case", PLAIN)
def test_batches_of_the_trainer(bench, case):
    keys, ranks = PLAIN[case]
    report = check(bench.plain(**keys), ranks)
    counts = report.simulation.row.counts
    assert (counts.padding_tokens > 0) or keys["per_device_train_batch_size"] == 1


@pytest.mark.parametrize("case", SFT)
def test_batches_of_sft(bench, case):
    kind, keys, ranks = SFT[case]
    check(bench.sft(kind, **keys), ranks)


def test_padding_on_the_left_trains_a_token_more_of_each_padded_row(bench):
    bench.tokenizer.padding_side = "left"
    try:
        trainer = bench.plain(**EIGHT)
        own = recorded(trainer, trainer.get_train_dataloader())
        report, _ = printed(trainer)
    finally:
        bench.tokenizer.padding_side = "right"
    for (width, rows, trained), made in zip(own, batches_of(report, 0), strict=True):
        assert made == (width, rows, trained - sum(n < width for n in rows))
    assert any("pads on the left" in each.message for each in report.warnings)
    right, _ = printed(bench.plain(**EIGHT))
    assert not any("pads on the left" in each.message for each in right.warnings)


def test_several_devices_of_one_process_share_a_batch(bench):
    """As in a notebook on two GPUs without a launcher: torch's DataParallel cuts it up."""
    from transformers import TrainingArguments

    class TwoDevices(TrainingArguments):  # type: ignore[misc]
        n_gpu = 2

    trainer = bench.plain(arguments=TwoDevices, per_device_train_batch_size=3)
    report = check(trainer, 1)
    assert report.simulation.row.counts.max_samples_per_batch == 6


def test_group_by_length_has_the_samples_of_the_trainer(bench):
    """It draws random numbers without a seed: which samples share a batch differs between runs."""
    keys = {**EIGHT, "train_sampling_strategy": "group_by_length"}
    trainer = bench.plain(**keys)
    own = recorded(trainer, trainer.get_train_dataloader())
    report, _ = printed(trainer)
    made = list(batches_of(report, 0))
    for part in (own, made):
        assert part[0][0] == LONGEST  # the longest come first
    assert sorted(n for _, rows, _ in made for n in rows) == sorted(
        n for _, rows, _ in own for n in rows
    )
    assert sum(trained for *_, trained in made) == sum(trained for *_, trained in own)
    assert [len(rows) for _, rows, _ in made] == [len(rows) for _, rows, _ in own]


def dataset_of(rows: list[list[int]]) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({"input_ids": rows})


def own_collator(samples: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    width = max(len(each["input_ids"]) for each in samples) + 3
    ids = torch.full((len(samples), width), 7)
    mask = torch.zeros_like(ids)
    for row, each in enumerate(samples):
        size = len(each["input_ids"])
        ids[row, :size] = torch.tensor(each["input_ids"])
        mask[row, :size] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def with_own_loader() -> type[Any]:
    from transformers import Trainer

    class Loading(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            import torch

            return torch.utils.data.DataLoader(
                self.train_dataset, batch_size=5, collate_fn=own_collator, shuffle=True
            )

    return Loading


def own_loaders(bench: Bench, which: str) -> Any:
    """Trainers whose batches only their own loader knows."""
    if which == "a collator":
        return bench.plain(collator=own_collator, **EIGHT)
    if which == "a loader":
        return bench.plain(made=with_own_loader(), **EIGHT)
    data = bench.tokenized()
    if which == "a stream":
        stream = data.to_iterable_dataset()
        return bench.plain(data=stream, max_steps=5, gradient_accumulation_steps=2, **EIGHT)
    if which == "a transform":
        data.set_transform(lambda rows: {"input_ids": [ids[:9] for ids in rows["input_ids"]]})
    elif which == "a list":
        data = [{"input_ids": row["input_ids"]} for row in data]
    return bench.plain(data=data, remove_unused_columns=False, **EIGHT)


OWN = {
    "a collator": "the collator own_collator is the script's own",
    "a loader": "Loading has its own get_train_dataloader",
    "a stream": "the data set is a stream",
    "a transform": "the data set transforms its samples on the fly",
    "a list": "the data set makes its samples itself",
}


@pytest.mark.parametrize("which", OWN)
def test_what_only_a_loader_knows_is_read_from_it(bench, which):
    """And what training reads afterwards is what was read, random numbers included."""
    import torch

    trainer = own_loaders(bench, which)
    torch.manual_seed(3)
    expected = recorded(trainer, trainer.get_train_dataloader())
    torch.manual_seed(3)
    report, lines = printed(trainer)
    assert f"its own loader was read, since {OWN[which]}" in lines["trainer"]
    first = 5 * 2 if which == "a stream" else len(expected)
    assert list(batches_of(report, 0)) == expected[:first]
    after = recorded(trainer, trainer.get_train_dataloader())
    assert after == expected
    torch.manual_seed(3)
    part, _ = printed(trainer, steps=2)
    per_step = trainer.args.gradient_accumulation_steps
    assert list(batches_of(part, 0)) == expected[: 2 * per_step]
    assert any("2 steps read" in each.message for each in part.warnings)
    if which in ("a loader", "a stream"):  # of which no argument decides
        assert not [each for each in report.changes.ranked if each.keys]


def test_a_loader_is_read_for_an_epoch(bench):
    import torch

    data = bench.tokenized("max_length").with_format("torch")
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    state = torch.get_rng_state()
    report, lines = printed(loader)
    assert bool((torch.get_rng_state() == state).all())
    assert lines["loader"] == f"DataLoader · {len(loader)} batches were read"
    assert lines["loss"] == "the loop's own: not known"
    own = list(batches_in(loader, bench.tokenizer.pad_token_id))
    made = [(width, rows) for width, rows, _ in batches_of(report, 0)]
    assert made == [(width, rows) for width, rows, _ in own]
    ranks, lines = printed(loader, world_size=2, gradient_accumulation_steps=3)
    assert ranks.simulation.row.counts.steps == -(-len(loader) // 6)
    assert "steps each" in lines["ranks"]


# --- what is said --------------------------------------------------------------------------------
def test_the_screen_answers_the_questions(bench):
    trainer = bench.plain("max_length", per_device_train_batch_size=1, num_train_epochs=5)
    lengths = [sum(mask) for mask in bench.tokenized("max_length")["attention_mask"]]
    report, lines = printed(trainer)
    longest = lengths.count(LONGEST)
    assert lines["data"] == (
        f"{len(lengths)} samples as the script tokenizes them · {sum(lengths):,} tokens · "
        f"{longest} end at exactly {LONGEST}"
    )
    assert f"every row is padded to {LONGEST} before batching" in lines["basis"]
    padding = 1 - sum(lengths) / (LONGEST * len(lengths))
    assert lines["padding"] == (
        f"{padding:.1%} of what is computed · largest batch {LONGEST} tokens, in every step"
    )
    assert lines["loss"] == "ok: every trained token counts the same"
    faster = LONGEST * len(lengths) / sum(lengths)
    assert f"{faster:.2f}x faster" in lines["result"]
    assert "the same samples in every step, no more memory" in lines["change"]
    assert lines["change"].endswith("batchstat.apply(trainer)")
    assert repr(report).startswith("Preflight('Trainer', ")


def test_padding_taken_out_is_what_the_change_computes(bench):
    """Every line of a padded data set, followed: the trainer without the padding has its row."""
    keys = {**EIGHT, "seed": 4}
    report, _ = printed(bench.plain("max_length", **keys))
    [repaired] = [each for each in report.changes.ranked if each.keys == {}]
    assert repaired.line == "batchstat.apply(trainer)"
    without, _ = printed(bench.plain(**keys))
    assert repaired.row.counts == without.simulation.row.counts


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("padding", [False, "max_length"])
def test_lines_for_a_sampler_make_their_rows(bench, ranks, padding, tmp_path):
    from batchstat.training.integrations.huggingface import with_batches

    trainer = bench.plain(padding, gradient_accumulation_steps=2, **EIGHT)
    report, _ = printed(trainer, world_size=ranks)
    changes = (*report.changes.ranked, *report.changes.others)
    lines = {change: line_of(report, change) for change in changes}
    regrouped = [line for change, line in lines.items() if change.is_regrouped]
    assert regrouped == ["batchstat.apply(trainer)"]
    own = [each for each, line in lines.items() if each.keys is None and "with_batches(" in line]
    assert own
    for change in own:
        repair, _, line = line_of(report, change).rpartition("with_batches(")
        assert bool(padding) == ("batchstat.apply(trainer)" in repair)
        sampler_of = line.partition(", batchstat")[2].partition(")  #")[0]
        for rank in range(ranks):
            text = f"batchstat{sampler_of}".replace("trainer.args.process_index", str(rank))
            text = text.replace("trainer.args.world_size", str(ranks))
            sampler = eval(text, {"batchstat": batchstat, "report": report})  # noqa: S307
            expected = list(batches_by(report, change.row.request, rank))
            made = [(batch.width, len(batch.records)) for batch in sampler.batches()]
            assert made == [(width, len(rows)) for width, rows, _ in expected], line
    if ranks == 1 and not padding:  # whole, as it would be pasted
        names = {"with_batches": with_batches, "batchstat": batchstat, "trainer": trainer}
        eval(line_of(report, own[0]), {**names, "report": report})  # noqa: S307
        loader = trainer.get_train_dataloader()
        made = [(width, rows) for width, rows, _ in batches_in(loader, -1)]
        expected = list(batches_by(report, own[0].row.request, 0))
        assert made == [(width, rows) for width, rows, _ in expected]
        with redirect_stdout(StringIO()), batchstat.record(tmp_path / "run"):
            trainer.train()
        trained, promised = batchstat.measure(tmp_path / "run").counts, own[0].row.counts
        for count in ("total_tokens", "real_tokens", "batches", "steps", "samples"):
            assert getattr(trained, count) == getattr(promised, count)


def test_padding_that_carries_loss_is_said(bench):
    data = bench.tokenized("max_length").map(lambda row: {"labels": row["input_ids"]})
    from transformers import default_data_collator

    _, quiet = printed(bench.plain("max_length"))
    report, _ = printed(bench.plain(data=data, collator=default_data_collator))
    padded = sum(mask.count(0) for mask in data["attention_mask"])
    [said] = [each.message for each in report.warnings if "carry loss" in each.message]
    assert f"{padded:,} tokens of padding carry loss" in said
    assert "carry loss" not in str(quiet)


def test_a_mask_that_does_not_leave_out_padding_is_said(bench):
    data = bench.tokenized("max_length")
    short = sum(mask.count(0) > 1 for mask in data["attention_mask"])
    full = data.map(lambda row: {"attention_mask": [1] * len(row["input_ids"])})
    report, _ = printed(bench.plain(data=full))
    [said] = [each.message for each in report.warnings if "calls real" in each.message]
    assert said.startswith(f"{short} of {len(data)} rows end in several padding tokens")
    [repaired] = [each for each in report.changes.ranked if each.keys == {}]
    # Of the padding, which is a token of its own here, one remains as the end of a text.
    sizes = np.array([sum(mask) for mask in data["attention_mask"]])
    sizes = np.minimum(sizes + 1, LONGEST)
    loader = bench.plain().get_train_dataloader()
    widths = [batch["input_ids"].shape for batch in loader]
    assert repaired.row.counts.real_tokens == sizes.sum()
    assert repaired.row.counts.total_tokens == sum(
        rows * min(width + 1, LONGEST) for rows, width in widths
    )
    assert "tokens computed instead of" in printed(bench.plain(data=full))[1]["result"]


def test_a_few_texts_that_end_in_several_end_tokens_are_texts(bench):
    end = bench.tokenizer.pad_token_id
    rows = bench.tokenized()["input_ids"]
    data = dataset_of([[*row[:-2], end, end] if i % 5 == 0 else row for i, row in enumerate(rows)])
    report, lines = printed(bench.plain(data=data, **EIGHT))
    assert not [each for each in report.warnings if "calls real" in each.message]
    assert not [each for each in report.changes.ranked if each.keys == {}]
    assert "pad in the collator" not in " ".join(lines.values())


def test_labels_of_samples_and_labels_that_are_drawn(bench):
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertForSequenceClassification,
        DataCollatorForLanguageModeling,
        DataCollatorWithPadding,
    )

    small = {key: SHAPE[key] for key in list(SHAPE)[:4]}
    config = BertConfig(vocab_size=len(bench.tokenizer), **small)
    data = bench.tokenized()
    classes = data.add_column("label", [i % 2 for i in range(len(data))])
    trainer = bench.plain(
        model=BertForSequenceClassification(config),
        data=classes,
        collator=DataCollatorWithPadding(bench.tokenizer),
        **EIGHT,
    )
    own = [
        (width, rows)
        for width, rows, _ in batches_in(
            ({**batch, "labels": None} for batch in trainer.get_train_dataloader()),
            bench.tokenizer.pad_token_id,
        )
    ]
    report, lines = printed(trainer)
    assert [(width, rows) for width, rows, _ in batches_of(report, 0)] == own
    assert lines["loss"] == "not known, since its labels are not of tokens"
    assert not any("no labels of tokens were seen" in each.message for each in report.warnings)
    bench.tokenizer.mask_token = bench.tokenizer.pad_token
    masked = bench.plain(
        model=BertForMaskedLM(config),
        collator=DataCollatorForLanguageModeling(bench.tokenizer),
        **EIGHT,
    )
    bench.tokenizer.mask_token = None
    assert printed(masked)[1]["loss"] == "ok: every trained token counts the same"


@pytest.mark.parametrize("padding", [True, "max_length"])
def test_an_encoder_and_a_decoder_have_two_widths(bench, padding):
    from datasets import Dataset
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        T5Config,
        T5ForConditionalGeneration,
    )

    sizes = [(3 + 7 * i % 40, 2 + 5 * i % 9) for i in range(50)]
    rows = [{"input_ids": [9] * a, "labels": [8] * b} for a, b in sizes]
    config = T5Config(vocab_size=len(bench.tokenizer), d_model=8, d_kv=4, d_ff=8, num_layers=1)
    config.decoder_start_token_id = config.pad_token_id = bench.tokenizer.pad_token_id
    trainer = Seq2SeqTrainer(
        T5ForConditionalGeneration(config),
        Seq2SeqTrainingArguments(
            output_dir=str(bench.folder / "out"), per_device_train_batch_size=4, **OPTIONS
        ),
        data_collator=DataCollatorForSeq2Seq(bench.tokenizer, padding=padding, max_length=64),
        train_dataset=Dataset.from_list(rows),
    )
    total = 0
    for batch in trainer.get_train_dataloader():
        total += batch["input_ids"].numel() + batch["labels"].numel()
    bare = [
        {key: batch[key] for key in ("input_ids", "attention_mask", "labels")}
        for batch in trainer.get_train_dataloader()
    ]
    if padding is True:
        counts = batchstat.measure(bare).counts
        assert (counts.total_tokens, counts.real_tokens) == (total, sum(a + b for a, b in sizes))
    report, lines = printed(trainer)
    counts = report.simulation.row.counts
    assert (counts.total_tokens, counts.real_tokens) == (total, sum(a + b for a, b in sizes))
    assert report.simulation.row.trained.tokens == sum(b for _, b in sizes)
    how = "rows are padded to at most 42" if padding is True else "every row is padded to 64"
    assert f"{how} in the encoder" in lines["basis"]
    assert report.changes.star is None
    assert lines["result"].startswith("What would help is not simulated")


# --- the loss ------------------------------------------------------------------------------------
def ignoring() -> type[Any]:
    from transformers import Trainer

    class Ignoring(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:
            return model(**inputs).loss

    return Ignoring


def not_counting(bench: Bench) -> Any:
    from transformers import LlamaForCausalLM

    class NotCounting(LlamaForCausalLM):  # type: ignore[misc]
        accepts_loss_kwargs = False

    return NotCounting(bench.model.config)


def summed(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    import torch

    logits, goals = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    total = torch.nn.functional.cross_entropy(logits, goals, reduction="sum")
    return total / num_items_in_batch


LOSSES = {
    "its own": ({}, "ok: every trained token counts the same", True),
    "its own, once": (
        {"gradient_accumulation_steps": 1},
        "ok: every trained token counts the same",
        True,
    ),
    "a model that counts nothing": ({"model": not_counting}, "a trained token weighs", False),
    "a model that counts nothing, once": (
        {"model": not_counting, "gradient_accumulation_steps": 1},
        "ok: every trained token counts the same",
        True,
    ),
    "a subclass that ignores the number": (
        {"made": ignoring},
        "its own (compute_loss): not known",
        False,
    ),
    "a function": (
        {"compute_loss_func": lambda: summed},
        "its own (compute_loss_func): not known",
        True,
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_the_loss_is_ok_only_where_every_token_counts_the_same(bench, case):
    """Held against the gradient of a step: that of the mean over all its trained tokens, or not."""

    given, said, is_exact = LOSSES[case]
    keys = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 2, **given}
    for key, make in (("model", not_counting), ("made", ignoring)):
        if keys.get(key) is make:
            keys[key] = make(bench) if key == "model" else make()
    if "compute_loss_func" in keys:
        keys["compute_loss_func"] = summed
    trainer = bench.plain(max_steps=1, max_grad_norm=0, **keys)
    _, lines = printed(trainer)
    assert lines["loss"].startswith(said)
    if "weighs" in said:
        assert "gradient_accumulation_steps=1" in lines["loss"]
    found: dict[str, Any] = {}

    def keep(*_: Any, **__: Any) -> None:
        found.update({n: p.grad.clone() for n, p in trainer.model.named_parameters()})

    from transformers import TrainerCallback

    kept = type("Keeping", (TrainerCallback,), {"on_pre_optimizer_step": keep})
    trainer.add_callback(kept())
    before = {name: each.clone() for name, each in trainer.model.state_dict().items()}
    trainer.train()
    trainer.model.load_state_dict(before)
    trainer.model.zero_grad()
    number = keys["gradient_accumulation_steps"]
    batches = list(islice(trainer.get_train_dataloader(), number))
    tokens = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
    for batch in batches:
        logits = trainer.model(input_ids=batch["input_ids"]).logits
        summed(type("Out", (), {"logits": logits}), batch["labels"], tokens).backward()
    worst = max(
        float((found[name] - each.grad).abs().max())
        for name, each in trainer.model.named_parameters()
    )
    assert (worst < 1e-5) == is_exact
    trainer.model.zero_grad()


def test_ranks_that_count_their_own_tokens_are_said(bench):
    keys = {**EIGHT, "average_tokens_across_devices": False}
    report, lines = printed(bench.plain(**keys), world_size=2)
    weights = report.simulation.row.trained.weights
    assert weights.spread > 1
    assert f"weighs {weights.p5:.2f} to {weights.p95:.2f}" in lines["loss"]
    assert lines["loss"].endswith("average_tokens_across_devices=True repairs it")
    _, lines = printed(bench.plain(**EIGHT), world_size=2)
    assert lines["loss"] == "ok: every trained token counts the same"


@pytest.mark.parametrize(("name", "old"), [("numpy", "1.26.4"), ("transformers", "4.47.1")])
def test_an_environment_that_is_too_old(bench, monkeypatch, name, old):
    real = trainer_object.version
    monkeypatch.setattr(trainer_object, "version", lambda each: old if each == name else real(each))
    with pytest.raises(InputError, match=f"{name} {old} is too old: .* numpy 2.0, pyarrow 21, tr"):
        batchstat.preflight(bench.plain())


# --- bad input -----------------------------------------------------------------------------------
def test_what_is_not_an_object_to_read(bench):
    with pytest.raises(InputError, match="neither a trainer's configuration, a Trainer nor a load"):
        batchstat.preflight(bench.model)
    empty = bench.tokenized().select([])
    with pytest.raises(InputError, match="the trainer's data set has no row"):
        batchstat.preflight(bench.plain(data=empty))
    with pytest.raises(InputError, match="there is no batch"):
        batchstat.preflight([])
