"""transformers' `TrainingArguments`."""
