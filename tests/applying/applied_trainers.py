"""Trainers that train a tiny model on rows that its data set holds padded to one width.

`python applied_trainers.py FOLDER TRAINER [CHECKPOINT] [NAME=VALUE …]` trains one of them, with
such arguments. It leaves in the folder the losses of its steps and evaluations, the samples
of each batch of each step, and the parameters.
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
TEXTS = {"save_strategy"}  # arguments that are no JSON
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


def mixtral() -> Any:
    """Whose loss has a part of its router, over all rows of a batch."""
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(1)
    experts = {"num_local_experts": 3, "num_experts_per_tok": 1, "num_key_value_heads": 2}
    routed = {"output_router_logits": True, "router_aux_loss_coef": 0.02}
    own = {**SHAPE, **experts, **routed, "pad_token_id": PADDING}
    return MixtralForCausalLM(MixtralConfig(vocab_size=VOCABULARY, **own))


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, pad_token_id=PADDING, **SHAPE))


class Left:
    """Where a trainer leaves what it came to."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder = folder
        self.checkpoint = next((word for word in words if "=" not in word), None)
        pairs = [word.split("=", 1) for word in words if "=" in word]
        self.more = {name: value if name in TEXTS else json.loads(value) for name, value in pairs}
        self.steps: list[list[list[int]]] = []
        self.waiting: list[list[int]] = []

    def note_batch(self, ids: Any) -> None:
        """Note a batch that is trained: the first token of each row tells which sample it is."""
        self.waiting.append([int(first) - 2 for first in ids[:, 0]])

    def note_step(self, *_: Any, **__: Any) -> None:
        self.steps.append(self.waiting)
        self.waiting = []

    def options(self, **more: Any) -> dict[str, Any]:
        """Arguments of a Trainer."""
        shown = {"report_to": [], "disable_tqdm": True, "logging_steps": 1}
        given = {"output_dir": str(self.folder / "out"), "use_cpu": True, "bf16": False}
        steps = {"per_device_train_batch_size": 4, "learning_rate": 0.01, "num_train_epochs": 1}
        return {"save_strategy": "no", **shown, **given, **steps, **more, **self.more}

    def train(self, trainer: Any) -> None:
        from transformers import TrainerCallback

        def note(module: Any, _: Any, given: Any) -> None:
            if module.training and torch.is_grad_enabled():
                self.note_batch(given["input_ids"])

        def on_step_end(_self: Any, *_: Any, **__: Any) -> None:
            self.note_step()

        trainer.model.register_forward_pre_hook(note, with_kwargs=True)
        trainer.add_callback(type("Steps", (TrainerCallback,), {"on_step_end": on_step_end})())
        trainer.train(resume_from_checkpoint=self.checkpoint)
        logged = trainer.state.log_history
        losses = [line[name] for line in logged for name in ("loss", "eval_loss") if name in line]
        self.leave(losses, trainer.model)

    def leave(self, losses: list[float], model: Any) -> None:
        values = [value for each in model.parameters() for value in each.flatten().tolist()]
        content = {"losses": losses, "steps": self.steps, "parameters": values}
        file = self.folder / f"trained.{os.environ.get('RANK', '0')}.json"
        file.write_text(json.dumps(content))


def trainer(left: Left, kind: Any = None, model: Any = None, **options: Any) -> None:
    from transformers import Trainer, TrainingArguments, default_data_collator

    evaluates = {"eval_dataset": rows().select(range(9))} if "eval_strategy" in options else {}
    given = TrainingArguments(**left.options(**{"gradient_accumulation_steps": 2, **options}))
    data = {"train_dataset": rows(), "data_collator": default_data_collator, **evaluates}
    left.train((kind or Trainer)((model or llama)(), given, **data))


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

    tokenizer, is_dynamic = chat_tokenizer(), left.more.pop("dynamic", False)
    padding = "longest" if is_dynamic else "max_length"
    collator = DataCollatorForSeq2Seq(tokenizer, padding=padding, max_length=WIDTH)
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
            if is_summed:
                loss = loss * (batch["labels"][:, 1:] != IGNORED).sum() / 60
            self.losses.append(loss.item())
            left.note_batch(batch["input_ids"])
            return loss

        def on_before_optimizer_step(self, _: Any) -> None:
            left.note_step()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    def collate(found: Any) -> Any:
        return {name: torch.tensor([row[name] for row in found]) for name in found[0]}

    is_summed, rows_of_batch = left.more.pop("summed", False), left.more.pop("rows", 4)
    module, quiet = Module(), {"logger": False, "enable_checkpointing": False}
    shown = {"enable_progress_bar": False, "enable_model_summary": False}
    ranks = {"devices": int(os.environ["WORLD_SIZE"])} if "RANK" in os.environ else {}
    given = {"max_epochs": 1, **ranks, **quiet, **shown, **left.more}
    own = pl.Trainer(accelerator="cpu", **given)
    data = 2 * [row_of(number) for number in range(N_SAMPLES)]
    own.fit(module, DataLoader(data, rows_of_batch, collate_fn=collate))
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
    "mixtral": lambda left: trainer(left, model=mixtral),
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
    TRAINERS[sys.argv[2]](Left(Path(sys.argv[1]), sys.argv[3:]))
