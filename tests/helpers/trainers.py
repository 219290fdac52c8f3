"""What transformers' Trainer and TRL's SFTTrainer make of a corpus: their own batches and steps."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recorder.read_batches import ReadBatch
from batchstat.recording.recorder.recorder import Stopped
from batchstat.recording.recorder.watching import record_here
from batchstat.recording.recording import RUN_FILE, read_recording
from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition

Batch = tuple[int, list[int], int | None]
"""Width, tokens of each row, and tokens with a loss; None where those are not modelled."""


@dataclass
class Found:
    """What a trainer does.

    Attributes:
        samples: samples that it batches.
        batches: for each rank, its batches.
        steps: optimizer steps of the whole training.
        warmup: those of the warm-up.
    """

    samples: int
    batches: list[list[Batch]]
    steps: int
    warmup: int


def shorter_definition(merges: int = 3000) -> str:
    """The built-in tokenizer with its first merges only: every trainer, and batchstat beside it,
    loads the vocabulary again, of which all 32,000 entries take most of the time of a small case.
    """
    made = json.loads(definition())
    model = made["model"]
    unmerged = len(model["vocab"]) - len(model["merges"])
    model["merges"] = model["merges"][:merges]
    model["vocab"] = {k: v for k, v in model["vocab"].items() if v < unmerged + merges}
    return json.dumps(made)


def save_tokenizer(folder: Path, text: str | None = None) -> Path:
    """A tokenizer.json, by default the built-in one, with a token that ends a sequence, as
    transformers saves it.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text or definition()),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    )
    made.save_pretrained(folder)
    return folder


def run(values: dict[str, Any], corpus: Path, tokenizer: Path, ranks: int, folder: Path) -> Found:
    """Train nothing, but prepare all of it."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    loaded = AutoTokenizer.from_pretrained(tokenizer)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(loaded), **shape, **heads))
    make = _sft if is_sft(values) else _plain
    options = {"output_dir": str(folder), "report_to": [], "use_cpu": True, "bf16": False}
    trainer = make(values | options, corpus, loaded, model)
    trainer.is_world_process_zero = lambda: True
    return _found(trainer, ranks)


def is_sft(values: dict[str, Any]) -> bool:
    """Whether it is a configuration of SFTTrainer."""
    return bool({"max_length", "packing", "dataset_text_field"} & set(values))


def _sft(values: dict[str, Any], corpus: Path, tokenizer: Any, model: Any) -> Any:
    from trl import SFTConfig, SFTTrainer

    return SFTTrainer(
        model,
        SFTConfig(**values),
        train_dataset=_dataset(corpus),
        processing_class=tokenizer,
    )


def _plain(values: dict[str, Any], corpus: Path, tokenizer: Any, model: Any) -> Any:
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    def tokenize(sample: dict[str, str]) -> Any:
        return tokenizer(sample["text"], truncation=True, max_length=128)

    return Trainer(
        model,
        TrainingArguments(**values),
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=_dataset(corpus).map(tokenize, remove_columns=["text"]),
    )


def _dataset(corpus: Path) -> Any:
    from datasets import Dataset

    lines = corpus.read_text(encoding="utf-8").splitlines()
    return Dataset.from_list([json.loads(line) for line in lines])


def loaders_of(trainer: Any, ranks: int) -> list[Any]:
    """The trainer's own loader, as each of so many ranks has it."""
    from accelerate.data_loader import prepare_data_loader

    if ranks == 1:
        return [trainer.get_train_dataloader()]
    plain = before_accelerate(trainer)
    return [
        prepare_data_loader(
            plain,
            num_processes=ranks,
            process_index=rank,
            put_on_device=False,
            use_seedable_sampler=True,
            data_seed=trainer.args.data_seed,
            even_batches=trainer.args.accelerator_config.even_batches,
        )
        for rank in range(ranks)
    ]


def _found(trainer: Any, ranks: int) -> Found:
    loaders, args = loaders_of(trainer, ranks), trainer.args
    steps = trainer.set_initial_training_values(args, loaders[0])[-1]
    return Found(
        samples=len(trainer.train_dataset),
        batches=[recorded(trainer, loader) for loader in loaders],
        steps=steps,
        warmup=args.get_warmup_steps(steps),
    )


def before_accelerate(trainer: Any) -> Any:
    """The trainer's DataLoader, before accelerate prepares it for one process."""
    made = []
    prepare = trainer.accelerator.prepare
    trainer.accelerator.prepare = lambda loader: made.append(loader) or loader
    trainer.get_train_dataloader()
    trainer.accelerator.prepare = prepare
    return made[0]


def recorded(trainer: Any, loader: Any) -> list[Batch]:
    """The batches of an epoch that the loop of a trainer takes from a loader, as batchstat records
    them in a dry run.
    """
    with TemporaryDirectory() as folder:
        facts = {"id": "run", "created": "2026-01-01T00:00:00+00:00"}
        Path(folder, RUN_FILE).write_text(json.dumps(facts))
        recorder, patches = record_here(Orders(folder, "run", b"key", is_dry=True))
        patches.replace(trainer, "get_train_dataloader", lambda _: lambda: loader)
        try:
            trainer.train()
        except Stopped:
            recorder.close()
        finally:
            patches.restore()
        [rank] = read_recording(Path(folder)).ranks
    return [batch_of(part) for batch in rank.batches for part in batch.parts]


def batch_of(read: ReadBatch) -> Batch:
    """Width, tokens of each row, and those that carry loss where labels are of tokens."""
    trained = None if read.trained is None else sum(sum(row) for row in read.trained)
    return read.width, [sum(row) for row in read.real or []], trained


def batches_in(loader: Any, pad: int) -> Iterator[Batch]:
    """The batches of a loader, read token by token."""
    for batch in loader:
        ids = batch["input_ids"]
        labels = batch.get("labels")
        # Without a mask, rows are laid end to end, and may be padded at the end.
        held = batch.get("attention_mask", ids != pad)
        trained = None if labels is None else int((labels[:, 1:] != -100).sum())
        yield ids.shape[1], [int(each) for each in held.sum(1)], trained
