"""Text to token counts: which tokenizer, and how it counts."""

from batchstat.tokens.chat import with_chat_template
from batchstat.tokens.loading import load_tokenizer
from batchstat.tokens.tokenizer import Tokenizer

__all__ = ["Tokenizer", "load_tokenizer", "with_chat_template"]
