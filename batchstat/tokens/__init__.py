"""Text to token counts: which tokenizer, and how it counts."""

from batchstat.tokens.chat import with_chat_template
from batchstat.tokens.lengths import token_lengths
from batchstat.tokens.loading import load_tokenizer
from batchstat.tokens.piecewise import PieceError
from batchstat.tokens.tokenizer import Tokenizer

__all__ = ["PieceError", "Tokenizer", "load_tokenizer", "token_lengths", "with_chat_template"]
