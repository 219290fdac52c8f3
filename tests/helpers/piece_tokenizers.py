"""Small tokenizers whose texts are counted by pieces, and characters that might disagree."""

import unicodedata
from itertools import chain

import pyarrow as pa
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import CL100K, QWEN2
from conftest import SAMPLE_DATA
from small_tokenizers import BY_CATEGORY, EVERY

SPECIAL = ["<pad>", "[UNK]", "<|end|>", "[MASK]"]


def byte_level(pattern: str | None, normalizer=None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return train(tokenizer, trainers.BpeTrainer, initial_alphabet=alphabet)


def word_piece(**options: object) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return train(tokenizer, trainers.WordPieceTrainer)


def metaspace(scheme: str, *, split_first: bool = False, unigram: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    marks = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    splits = [pre_tokenizers.WhitespaceSplit(), marks]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits) if split_first else marks
    if unigram:
        return train(tokenizer, trainers.UnigramTrainer, unk_token="[UNK]")
    return train(tokenizer, trainers.BpeTrainer)


def sentence_piece(*steps, split_first: bool = True) -> Tokenizer:
    """A stand-in: these published normalizers, and a vocabulary of its own."""
    tokenizer = metaspace("always", split_first=split_first)
    tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


def quotes() -> list:
    return [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]


def albert(*steps) -> Tokenizer:
    accents = [normalizers.NFKD(), normalizers.StripAccents()]
    return sentence_piece(*quotes(), *accents, normalizers.Lowercase(), *steps)


def xlnet(*steps) -> Tokenizer:
    runs = normalizers.Replace(Regex(" {2,}"), " ")
    return sentence_piece(*quotes(), normalizers.NFKD(), normalizers.StripAccents(), *steps, runs)


def recent(*steps, split_first: bool = False) -> Tokenizer:
    """As transformers converts Pegasus, XLM-R and others today."""
    runs = normalizers.Replace(Regex(" {2,}"), "\u2581")
    end = normalizers.Strip(left=False, right=True)
    return sentence_piece(*steps, end, runs, split_first=split_first)


def train(tokenizer: Tokenizer, trainer, **options) -> Tokenizer:
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()[:100]
    made = trainer(vocab_size=600, special_tokens=SPECIAL, show_progress=False, **options)
    tokenizer.train_from_iterator(lines, made)
    return tokenizer


CUT = {
    "WordPiece": lambda: word_piece(lowercase=False),
    "WordPiece, uncased": lambda: word_piece(lowercase=True, strip_accents=True),
    "gpt2": lambda: byte_level(None),
    "cl100k": lambda: byte_level(CL100K),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "Metaspace, Unigram": lambda: metaspace("always"),
    "Metaspace, BPE": lambda: metaspace("always", unigram=False),
    "Metaspace, no prepend": lambda: metaspace("never"),
    "T5's": lambda: metaspace("always", split_first=True),
    "ALBERT's": albert,
    "XLNet's": xlnet,
    "a recent conversion": recent,
    "a recent conversion, whitespace dropped": lambda: recent(split_first=True),
    "compatibility characters": lambda: sentence_piece(normalizers.Nmt(), normalizers.NFKC()),
}


TAKES_SPACE = AddedToken("~x", lstrip=True)
LITERAL = [AddedToken(text, normalized=False) for text in ("<extra_0>", "it's")]
ADDED = {
    # With Strip, tokenizers itself panics on some texts if there are tokens in normalized text.
    "a recent conversion": LITERAL,
    "a recent conversion, whitespace dropped": LITERAL,
}
"""Added tokens of tokenizers that take fewer kinds of them."""
NO_SPACES = ("WordPiece", "WordPiece, uncased", "T5's", "ALBERT's", "XLNet's")
for _name in NO_SPACES:
    CUT[f"{_name}, no token with spaces"] = CUT[_name]
    ADDED[f"{_name}, no token with spaces"] = [
        "<extra_0>",
        "it's",
        AddedToken("字.", normalized=False),
        TAKES_SPACE,
    ]


def whole(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    return [len(each) for each in tokenizer.encode_batch_fast(texts)]


def by_pieces(counter: PieceCounter, texts: list[str]) -> list[int]:
    """Also where pieces do not repeat, and without the check that would hide a wrong cut."""
    return counter._count_sides([pa.array(texts, pa.large_string())]).tolist()


def assert_equal_counts(tokenizer: Tokenizer, counter: PieceCounter, texts: list[str]) -> None:
    assert dict(zip(texts, by_pieces(counter, texts), strict=True)) == dict(
        zip(texts, whole(tokenizer, texts), strict=True)
    )


_SPACES = [BY_CATEGORY[each] for each in ("Zs", "Zl", "Zp", "Cf")]
SPACES = [*filter(str.isspace, BY_CATEGORY["Cc"]), *chain(*_SPACES)]
CONTROLS = [c for c in EVERY[:0x300] if unicodedata.category(c) == "Cc"]
MARKS = [c for c in EVERY[:0x3100] if unicodedata.combining(c)][::7]
