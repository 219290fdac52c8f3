"""Special tokens of samples, and templates that do more than to add them."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from batchstat.tokenization.counting.count_check import CountCheck
from batchstat.tokenization.counting.engine_counter import EngineCounter
from batchstat.tokenization.counting.piece_counter import PieceCounter
from batchstat.tokenization.counting.safe_cuts import find_cuts
from batchstat.tokenization.counting.shortcut import find_special
from batchstat.tokenization.token_positions import TokenLocator
from small_tokenizers import FAMILIES, trained

REPEATING = [
    ("[UNK] $A", "[UNK] $A $B $B <pad>"),
    ("$A", "$A <pad> $B <pad> $A"),
    ("$A $A", "$A $B"),
    ("[UNK] $A $A", "[UNK] $A $A $B $B"),
]
TEMPLATES = [*REPEATING, ("$A", "$A:0 $B:1"), ("<pad> $A:3 [UNK]:7", "$B:1 [UNK]:2 $A:0")]
TEXTS = st.lists(st.sampled_from(["", "a", " the", "<pad>", "é日", "some words."]), max_size=4)


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """Without the check of some texts, and with pieces however rarely they repeat."""
    monkeypatch.setattr(CountCheck, "check", lambda *_: None)
    monkeypatch.setattr(PieceCounter, "_pieces_repeat", lambda *_: True)


def templated(single: str, pair: str, *, is_inside: bool) -> Tokenizer:
    tokenizer = trained(*FAMILIES["gpt2, roberta"], size=400)
    special = [(text, tokenizer.token_to_id(text)) for text in ("[UNK]", "<pad>")]
    template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    after = [processors.ByteLevel(), processors.Sequence([template])]
    tokenizer.post_processor = processors.Sequence(after) if is_inside else template
    return tokenizer


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("is_inside", [False, True])
def test_whatever_a_template_makes_of_texts_and_pairs(template, is_inside):
    """Counted and located as the tokenizer does, or not faster, with its special tokens or without.

    tokenizers repeats a text even without special tokens: the engine counted it once.
    """
    pytest.importorskip("fastokens")
    tokenizer = templated(*template, is_inside=is_inside)
    cuts = find_cuts(tokenizer)
    counters: list[tuple[bool, EngineCounter | PieceCounter]] = []
    for special in (False, True):
        engine = EngineCounter(tokenizer, special_tokens=special)
        engine.load()
        counters += [(special, engine)]
        counters += [(special, PieceCounter(tokenizer, cuts, special_tokens=special))]
    rendering = counters[0][1]
    refused = set()

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.tuples(TEXTS.map("".join), TEXTS.map("".join)), min_size=1, max_size=5))
    def try_pairs(pairs):
        first, second = (list(side) for side in zip(*pairs, strict=True))
        sides = [pa.array(texts, pa.large_string()) for texts in (first, second)]
        for special, counter in counters:
            for some, samples in ((sides[:1], first), (sides, pairs)):
                found = counter.count(*some)
                encoded = tokenizer.encode_batch(samples, add_special_tokens=special)
                assert found is None or found.tolist() == list(map(len, encoded))
                if found is None:
                    refused.add(len(some))
        located = TokenLocator(tokenizer).locate(first, rendering).encodings
        for tokens, encoding in zip(
            located, tokenizer.encode_batch(first, add_special_tokens=False), strict=True
        ):
            assert [(begin, end) for begin, end in tokens.offsets] == encoding.offsets

    try_pairs()
    single, pair = template
    repeats = single.count("$A") != 1, {pair.count("$A"), pair.count("$B")} != {1}
    assert refused == {sides for sides in (1, 2) if any(repeats[:sides])}


def test_special_tokens_are_those_of_an_empty_text():
    tokenizer = templated("[UNK] $A <pad>", "$A <pad> $B", is_inside=False)
    assert find_special(tokenizer, special_tokens=True) == {1: 2, 2: 1}
    assert find_special(tokenizer, special_tokens=False) == {1: 0, 2: 0}
