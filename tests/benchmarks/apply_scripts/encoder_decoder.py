"""T5 with the Seq2SeqTrainer of transformers, its texts and answers padded in `map`."""

from common import arguments, texts, tokenizer_of, train, training_arguments
from datasets import Dataset
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    default_data_collator,
)

given = arguments()
tokenizer = tokenizer_of(given)


def encoded(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
    given_to = tokenizer(rows["text"], padding="max_length", truncation=True, max_length=384)
    firsts = [text.split(".")[0] for text in rows["text"]]
    answers = tokenizer(firsts, padding="max_length", truncation=True, max_length=128)
    labels = [
        [word if is_real else -100 for word, is_real in zip(words, mask, strict=True)]
        for words, mask in zip(answers["input_ids"], answers["attention_mask"], strict=True)
    ]
    return {
        "input_ids": given_to["input_ids"],
        "attention_mask": given_to["attention_mask"],
        "labels": labels,
    }


rows = Dataset.from_dict({"text": texts(320)}).map(encoded, batched=True, remove_columns=["text"])
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=len(tokenizer),
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
)
trainer = Seq2SeqTrainer(
    model,
    training_arguments(given, Seq2SeqTrainingArguments, 8),
    train_dataset=rows,
    data_collator=default_data_collator,
)
train(given, trainer)
