"""From text to token counts: which tokenizer to use, and how to count exactly and fast."""
