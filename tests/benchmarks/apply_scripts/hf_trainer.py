"""A Trainer of transformers whose rows are padded in `map`, or by its collator."""

from common import Clock, arguments, leave, texts, tokenizer_of
from datasets import Dataset
from transformers import (
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

given = arguments()
tokenizer = tokenizer_of(given)
padding = False if given.collated else "max_length"
rows = Dataset.from_dict({"text": texts(320)}).map(
    lambda rows: tokenizer(rows["text"], padding=padding, truncation=True, max_length=512),
    batched=True,
    remove_columns=["text"],
)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
)
trainer = Trainer(
    model,
    TrainingArguments(
        str(given.left / "out"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        logging_steps=1,
        disable_tqdm=True,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=rows,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
clock = Clock()
trainer.train()
clock.stop()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
leave(given, losses, clock, model)
