"""Settings, and the keywords of public functions that set them."""

from dataclasses import fields
from typing import get_type_hints

import pytest

import batchstat
from batchstat import CorpusOptions, OptionError, Settings
from batchstat.corpus.options import ReadingOptions
from batchstat.planning.settings import SettingsOptions
from tables import in_turn


def test_keywords_are_the_fields():
    assert get_type_hints(SettingsOptions) == {field.name: field.type for field in fields(Settings)}
    several = ("text_column", "label_column")
    reading = {each.name: each.type for each in fields(CorpusOptions) if each.name not in several}
    assert get_type_hints(ReadingOptions) == reading


@in_turn(
    ("call", "wrong", "right"),
    [
        (lambda **wrong: batchstat.compare([1], **wrong), "stratgies", "strategies"),
        (lambda **wrong: batchstat.compare([1], **wrong), "token_per_batch", "tokens_per_batch"),
        (lambda **wrong: batchstat.balance([1], labels=["a"], **wrong), "epoch_", "epoch"),
        (lambda **wrong: batchstat.find_buckets([1], **wrong), "bucket", "buckets"),
        (lambda **wrong: batchstat.profile("a.txt", **wrong), "min_char", "min_chars"),
        (lambda **wrong: batchstat.BatchSampler([1], **wrong), "worldsize", "world_size"),
        (lambda **wrong: batchstat.StreamBatcher([1], length=len, **wrong), "replays", "replay"),
    ],
)
def test_a_keyword_that_is_not_known(call, wrong, right):
    with pytest.raises(OptionError, match=f"unknown argument '{wrong}': did you mean '{right}'"):
        call(**{wrong: 1})
