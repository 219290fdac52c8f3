"""Train a tiny model on the sample data, as many scripts do: every text is padded to one length
before it is batched. `batchstat run docs/train.py` says what that costs.

Needs torch, transformers, datasets and accelerate.
"""

from datasets import Dataset
from tokenizers import Tokenizer
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from batchstat.tokenization.builtin import definition

CORPUS = "sample_data/corpus.txt"
TOKENIZER = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer.from_str(definition()),
    pad_token="<|endoftext|>",  # noqa: S106
)


def tokenize(rows):
    """Return the ids of texts, padded to 512 tokens."""
    return TOKENIZER(rows["text"], truncation=True, max_length=512, padding="max_length")


def main():
    """Train one epoch."""
    texts = Dataset.from_text(CORPUS).filter(lambda row: row["text"])
    trainer = Trainer(
        GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, pad_token_id=0)),
        TrainingArguments(
            "out",
            per_device_train_batch_size=2,
            gradient_accumulation_steps=4,
            num_train_epochs=1,
            report_to=[],
        ),
        DataCollatorForLanguageModeling(TOKENIZER, mlm=False),
        texts.map(tokenize, batched=True, remove_columns="text"),
    )
    trainer.train()


if __name__ == "__main__":
    main()
