"""What the scripts share: their arguments, their texts, and what they leave to be compared."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CORPUS = Path(__file__).parents[3] / "sample_data" / "corpus.txt"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenizer", type=Path, help="its folder")
    parser.add_argument("left", type=Path, help="the folder of what the script leaves")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--collated", action="store_true", help="pad where rows are collated")
    given = parser.parse_args()
    if given.double:
        torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    return given


def tokenizer_of(given: argparse.Namespace) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(given.tokenizer)


def texts(count: int) -> list[str]:
    """The first paragraphs of the corpus, without headings."""
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("=")][:count]


class Clock:
    """The time of a training, and the processor time of its process."""

    def __init__(self) -> None:
        self.seconds, self.processor = -time.perf_counter(), -time.process_time()

    def stop(self) -> None:
        self.seconds += time.perf_counter()
        self.processor += time.process_time()


def leave(
    given: argparse.Namespace, losses: Sequence[float], clock: Clock, model: torch.nn.Module
) -> None:
    """Write what the training of this rank came to."""
    given.left.mkdir(parents=True, exist_ok=True)
    rank = os.environ.get("RANK", "0")
    found = {"losses": list(losses), **vars(clock), "parameters": model.state_dict()}
    torch.save(found, given.left / f"rank-{rank}.pt")
    print(f"training took {clock.seconds:.2f} s")


def llama(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def training_arguments(given: argparse.Namespace, kind: Any, batch_size: int, **more: Any) -> Any:
    """Arguments of a Trainer: an epoch on the processor, with the loss of every step."""
    quiet = {"disable_tqdm": True, "report_to": [], "save_strategy": "no"}
    return kind(
        str(given.left / "out"),
        per_device_train_batch_size=batch_size,
        num_train_epochs=1,
        logging_steps=1,
        use_cpu=True,
        **quiet,
        **more,
    )


def train(given: argparse.Namespace, trainer: Any) -> None:
    """Train with a Trainer, and leave what it came to."""
    clock = Clock()
    trainer.train()
    clock.stop()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    leave(given, losses, clock, trainer.model)
