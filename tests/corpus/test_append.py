"""`append`: what trainers put after each text that does not end with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batchstat
from conftest import write_jsonl

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

TEXTS = st.lists(st.sampled_from(["a", "</s>", "a</s>", " b ", "c</s> ", "</s", "é"]), min_size=1)


@settings(max_examples=12)  # each counts a file
@given(TEXTS, st.booleans())
def test_each_text_ends_with_it_once(tmp_path_factory, texts, strip):
    folder = tmp_path_factory.mktemp("append")
    rows = [{"text": text} for text in texts]
    options = {"append": "</s>", "strip": strip}
    found = batchstat.profile(write_jsonl(folder / "a.jsonl", rows), **options)
    stripped = [text.strip() if strip else text for text in texts]
    ended = [text if text.endswith("</s>") else text + "</s>" for text in stripped]
    assert found.lengths.tolist() == batchstat.token_lengths(ended).tolist()


def test_the_completion_ends_with_it(tmp_path):
    rows = [{"prompt": "a ", "completion": "b"}, {"prompt": "a</s>", "completion": " b</s>"}]
    columns = {"prompt_column": "prompt", "completion_column": "completion"}
    found = batchstat.profile(write_jsonl(tmp_path / "a.jsonl", rows), append="</s>", **columns)
    assert found.lengths.tolist() == batchstat.token_lengths(["a b</s>", "a</s> b</s>"]).tolist()


def test_it_is_for_texts():
    with pytest.raises(
        batchstat.OptionError, match="append is for texts, not with messages_column"
    ):
        batchstat.CorpusOptions(messages_column="messages", append="</s>")


def test_what_is_no_character_cannot_be_appended():
    with pytest.raises(batchstat.OptionError, match="half a surrogate pair"):
        batchstat.CorpusOptions(append="\ud800")
