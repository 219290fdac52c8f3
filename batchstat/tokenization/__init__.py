"""Text to token counts: which tokenizer, and how it counts."""
