"""A Trainer of transformers whose rows are padded in `map`, or by its collator."""

from common import arguments, llama, texts, tokenizer_of, train, training_arguments
from datasets import Dataset
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

given = arguments()
tokenizer = tokenizer_of(given)
padding = False if given.collated else "max_length"
rows = Dataset.from_dict({"text": texts(320)}).map(
    lambda rows: tokenizer(rows["text"], padding=padding, truncation=True, max_length=512),
    batched=True,
    remove_columns=["text"],
)
trainer = Trainer(
    llama(tokenizer),
    training_arguments(given, TrainingArguments, 4, gradient_accumulation_steps=2),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
train(given, trainer)
