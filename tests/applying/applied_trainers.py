"""Trainers that train a tiny model on rows that its data set holds padded to one width.

`python applied_trainers.py FOLDER TRAINER [CHECKPOINT]` trains one of them. It leaves in the folder
the losses of its steps and evaluations, and the parameters.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

WIDTH, VOCABULARY, N_SAMPLES = 40, 60, 48
PADDING, EOS, IGNORED = 0, 1, -100
SHAPE = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def ids_of(number: int) -> list[int]:
    """Token ids of a sample, of which none has the length of the whole width."""
    return [
        2 + number,
        *((7 * number + 3 * place) % 50 + 2 for place in range(4 + 5 * number % 17)),
    ]


def padded(row: list[int], value: int = PADDING, width: int = WIDTH) -> list[int]:
    return row + [value] * (width - len(row))


def row_of(number: int) -> dict[str, list[int]]:
    ids = ids_of(number)
    mask = padded([1] * len(ids))
    return {"input_ids": padded(ids), "attention_mask": mask, "labels": padded(ids, IGNORED)}


def rows(kind: Callable[[int], dict[str, list[int]]] = row_of) -> Any:
    from datasets import Dataset

    return Dataset.from_list([kind(number) for number in range(N_SAMPLES)])


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, pad_token_id=PADDING, **SHAPE))


class Left:
    """Where a trainer leaves what it came to."""

    def __init__(self, folder: Path, checkpoint: str | None) -> None:
        self.folder, self.checkpoint = folder, checkpoint

    def options(self, **more: Any) -> dict[str, Any]:
        """Arguments of a Trainer."""
        shown = {"report_to": [], "disable_tqdm": True, "logging_steps": 1}
        given = {"output_dir": str(self.folder / "out"), "use_cpu": True, "bf16": False}
        steps = {"per_device_train_batch_size": 4, "learning_rate": 0.01, "num_train_epochs": 1}
        return {"save_strategy": "no", **shown, **given, **steps, **more}

    def train(self, trainer: Any) -> None:
        trainer.train(resume_from_checkpoint=self.checkpoint)
        logged = trainer.state.log_history
        losses = [line[name] for line in logged for name in ("loss", "eval_loss") if name in line]
        self.leave(losses, trainer.model)

    def leave(self, losses: list[float], model: Any) -> None:
        values = [value for each in model.parameters() for value in each.flatten().tolist()]
        content = {"losses": losses, "parameters": values}
        file = self.folder / f"trained.{os.environ.get('RANK', '0')}.json"
        file.write_text(json.dumps(content))


def trainer(left: Left, kind: Any = None, **options: Any) -> None:
    from transformers import Trainer, TrainingArguments, default_data_collator

    evaluates = {"eval_dataset": rows().select(range(9))} if "eval_strategy" in options else {}
    given = TrainingArguments(**left.options(**{"gradient_accumulation_steps": 2, **options}))
    data = {"train_dataset": rows(), "data_collator": default_data_collator, **evaluates}
    left.train((kind or Trainer)(llama(), given, **data))


def subclass(left: Left) -> None:
    """With a loss of its own: the mean over samples."""
    from transformers import Trainer

    class Own(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            labels = inputs.pop("labels")[:, 1:]
            logits = model(**inputs).logits[:, :-1].transpose(1, 2)
            losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
            return (losses.sum(1) / (labels != IGNORED).sum(1)).mean()

    trainer(left, Own)


def sft(left: Left) -> None:
    from transformers import DataCollatorForSeq2Seq
    from trl import SFTConfig, SFTTrainer

    from chat_tokenizer import chat_tokenizer

    def row(number: int) -> dict[str, list[int]]:
        return {"input_ids": ids_of(number), "labels": ids_of(number)}

    tokenizer = chat_tokenizer()
    collator = DataCollatorForSeq2Seq(tokenizer, padding="max_length", max_length=WIDTH)
    given = SFTConfig(**left.options(max_length=WIDTH))
    model = llama()
    model.resize_token_embeddings(len(tokenizer))
    data = {"train_dataset": rows(row), "data_collator": collator, "processing_class": tokenizer}
    left.train(SFTTrainer(model, given, **data))


def encoder_decoder(left: Left) -> None:
    from transformers import (
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        T5Config,
        T5ForConditionalGeneration,
        default_data_collator,
    )

    def row(number: int) -> dict[str, list[int]]:
        answer = ids_of(number)[: 3 + number % 5]
        return {**row_of(number), "labels": padded(answer, IGNORED, 12)}

    torch.manual_seed(1)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    special = {"pad_token_id": PADDING, "decoder_start_token_id": PADDING, "eos_token_id": EOS}
    config = T5Config(vocab_size=VOCABULARY, dropout_rate=0.0, **sizes, **special)
    given = Seq2SeqTrainingArguments(**left.options())
    data = {"train_dataset": rows(row), "data_collator": default_data_collator}
    left.train(Seq2SeqTrainer(T5ForConditionalGeneration(config), given, **data))


def lightning(left: Left) -> None:
    import lightning.pytorch as pl
    from torch.utils.data import DataLoader

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model, self.losses = llama(), list[float]()

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.model(**batch).loss
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    def collate(found: Any) -> Any:
        return {name: torch.tensor([row[name] for row in found]) for name in found[0]}

    module, quiet = Module(), {"logger": False, "enable_checkpointing": False}
    shown = {"enable_progress_bar": False, "enable_model_summary": False}
    ranks = {"devices": int(os.environ["WORLD_SIZE"])} if "RANK" in os.environ else {}
    own = pl.Trainer(accelerator="cpu", max_epochs=1, **ranks, **quiet, **shown)
    data = 2 * [row_of(number) for number in range(N_SAMPLES)]
    own.fit(module, DataLoader(data, 4, collate_fn=collate))
    left.leave(module.losses, module)


def old(left: Left) -> None:
    """Of a version whose steps are not known."""
    import transformers

    transformers.__version__ = "4.39.3"
    trainer(left)


TRAINERS: dict[str, Callable[[Left], None]] = {
    "trainer": trainer,
    "subclass": subclass,
    "old": old,
    "sft": sft,
    "encoder-decoder": encoder_decoder,
    "lightning": lightning,
    "three-epochs": lambda left: trainer(left, num_train_epochs=3),
    "max-steps": lambda left: trainer(left, max_steps=15, gradient_accumulation_steps=1),
    "evaluated": lambda left: trainer(
        left, eval_strategy="steps", eval_steps=3, num_train_epochs=2
    ),
    "saved": lambda left: trainer(left, save_strategy="steps", save_steps=4, num_train_epochs=2),
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    TRAINERS[sys.argv[2]](Left(Path(sys.argv[1]), next(iter(sys.argv[3:]), None)))
