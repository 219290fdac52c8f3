"""SFTTrainer of TRL, with a collator that pads each row to the most tokens."""

from common import Clock, arguments, leave, texts, tokenizer_of
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

given = arguments()
tokenizer = tokenizer_of(given)
encoded = tokenizer(texts(320), truncation=True, max_length=384)["input_ids"]
rows = Dataset.from_dict({"input_ids": encoded, "labels": encoded})
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=tokenizer.pad_token_id,
    )
)
trainer = SFTTrainer(
    model,
    SFTConfig(
        str(given.left / "out"),
        max_length=384,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        logging_steps=1,
        disable_tqdm=True,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
    ),
    train_dataset=rows,
    processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding="max_length", max_length=384),
)
clock = Clock()
trainer.train()
clock.stop()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
leave(given, losses, clock, model)
