"""SFTTrainer of TRL, with a collator that pads each row to the most tokens."""

from common import arguments, llama, texts, tokenizer_of, train, training_arguments
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq
from trl import SFTConfig, SFTTrainer

given = arguments()
tokenizer = tokenizer_of(given)
encoded = tokenizer(texts(320), truncation=True, max_length=384)["input_ids"]
own = {"max_length": 384, "gradient_accumulation_steps": 2, "bf16": False}
trainer = SFTTrainer(
    llama(tokenizer),
    training_arguments(given, SFTConfig, 4, **own),
    train_dataset=Dataset.from_dict({"input_ids": encoded, "labels": encoded}),
    processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding="max_length", max_length=384),
)
train(given, trainer)
