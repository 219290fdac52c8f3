"""Train the built-in tokenizer and write it into the package.

    python docs/make_tokenizer.py CORPUS.txt

CORPUS.txt is plain text, one passage per line. The same corpus and the same version of the
tokenizers library give the same file.
"""

import gzip
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from batchstat.tokenization import builtin

ENTRIES = 32_000
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train(corpus: Path) -> str:
    """Train a byte-level BPE on a text file, and return its tokenizer.json. It splits texts by the
    pattern of gpt2. Its alphabet has every byte, so it has no unknown token.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ENTRIES,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(corpus)], trainer)
    return tokenizer.to_str()


def main() -> None:
    """Read the corpus named on the command line and write the file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/make_tokenizer.py CORPUS.txt")
    # mtime=0, because gzip stores the time otherwise: the same corpus would give another file.
    packed = gzip.compress(train(Path(sys.argv[1])).encode(), mtime=0)
    Path(builtin.__file__).with_name(builtin.FILE).write_bytes(packed)


if __name__ == "__main__":
    main()
