"""A small tokenizer for trainings: backward through a vocabulary of 30,000 entries, such as the
built-in one's, takes most of the time of a step of a tiny model.
"""

from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from batchstat.tokenization.builtin import CHAT_TEMPLATE

TEXTS = Path(__file__).parents[2] / "sample_data/corpus.txt"
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@cache
def _definition(entries: int) -> str:
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=entries, initial_alphabet=letters, special_tokens=MARKS, show_progress=False
    )
    own.train_from_iterator([TEXTS.read_text("utf-8")], trainer)
    return str(own.to_str())


def chat_tokenizer(entries: int = 1000) -> Any:
    """A tokenizer of transformers with so many entries and a chat template, as the built-in one."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_definition(entries)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    )
