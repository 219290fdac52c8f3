"""What a message advises is followed to the letter, until a file is read: layouts that people have,
after files in public repositories."""

import json
import re

import pytest

import batchstat

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

CHAT = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
SHAREGPT = [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]
SQUAD = {
    "data": [
        {"paragraphs": [{"context": f"c {i}", "qas": [{"id": i, "question": "q"}]}] * 2}
        for i in range(3)
    ]
}
NAME = "NAME"


def followed(path) -> batchstat.Profile:
    """Pass what each message says, at most five times."""
    options: dict[str, str] = {}
    for _ in range(5):
        try:
            return batchstat.profile(path, **options)
        except batchstat.InputError as error:
            advice = str(error).rpartition(": pass ")[2]
        # Which of several columns is the text only a user can say, but not where samples are.
        first, _, other = advice.partition(", or ")
        options |= dict(re.findall(r'(\w+)="([^"]*)"', other if NAME in first else first))
    raise AssertionError(f"no end: {options}")


@pytest.mark.parametrize(
    ("name", "content", "samples", "read"),
    [
        ("a.jsonl", json.dumps({"chosen_messages": CHAT, "n": 1}), 1, "chosen_messages"),
        ("a.json", json.dumps([{"dialog": SHAREGPT, "id": "1"}]), 1, "dialog"),
        ("a.json", json.dumps([{"conversations": SHAREGPT, "chosen": {}}]), 1, "conversations"),
        (
            "a.json",
            json.dumps([{"instruction": "a", "input": "b", "output": "c"}]),
            1,
            "messages",
        ),
        ("a.json", json.dumps([{"id": "1", "turns": [{"text": "a"}, {"text": "b"}]}]), 2, "text"),
        ("a.jsonl", json.dumps({"id": "1", "turns": [{"text": "a"}, {"text": "b"}]}), 2, "text"),
        ("a.json", json.dumps([{"translation": {"en": "a", "de": "b"}}]), 1, "translation.en"),
    ],
)
def test_advice_leads_to_the_samples(tmp_path, name, content, samples, read):
    (tmp_path / name).write_text(content)
    profile = followed(tmp_path / name)
    assert len(profile) == samples
    assert profile.corpus.read[0].content == (read,)


def test_a_csv_of_quoted_fields_between_tabs(tmp_path):
    (tmp_path / "a.csv").write_text('"row"\t"text"\n"1"\t"a, b"\n')
    with pytest.raises(batchstat.InputError, match='pass separator="tab"'):
        batchstat.profile(tmp_path / "a.csv")
    profile = batchstat.profile(tmp_path / "a.csv", separator="tab", text_column="text")
    assert batchstat.read_samples(profile) == [{"text": "a, b"}]
    # Quotes around a semicolon inside of a text say nothing of the separator.
    (tmp_path / "b.csv").write_text('say ";" please,1\nfine,0\n')
    profile = batchstat.profile(tmp_path / "b.csv", header=False, text_column=0)
    assert batchstat.read_samples(profile) == [{"text": 'say ";" please'}, {"text": "fine"}]


def test_each_message_leads_one_level_down_a_squad(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(SQUAD))
    paths = ["data", "data[].paragraphs"]
    for path, before in zip(paths, [None, "data"], strict=True):
        options = {} if before is None else {"records": before}
        with pytest.raises(batchstat.InputError, match=re.escape(f'records="{path}"')):
            batchstat.profile(tmp_path / "a.json", **options)
    profile = batchstat.profile(tmp_path / "a.json", records=paths[-1])
    assert (len(profile), profile.corpus.read[0].content) == (6, ("context",))


def test_a_table_of_tabs_is_no_plain_text(tmp_path):
    (tmp_path / "SMSSpamCollection").write_text("ham\tsee you, later\nspam\twin now\n" * 3)
    with pytest.raises(batchstat.InputError, match="has 2 fields between tabs on each line"):
        batchstat.profile(tmp_path / "SMSSpamCollection")
    options = {"input_format": "tsv", "header": False, "text_column": 1, "label_column": 0}
    profile = batchstat.profile(tmp_path / "SMSSpamCollection", **options)
    assert {c.label: c.count for c in profile.classes} == {"ham": 3, "spam": 3}
    assert len(batchstat.profile(tmp_path / "SMSSpamCollection", input_format="txt")) == 6


@pytest.mark.parametrize("name", ["label", "status_id", "Category", "lang", "role"])
def test_a_lone_column_of_labels_or_ids_is_no_text(tmp_path, name):
    (tmp_path / "a.jsonl").write_text(json.dumps({name: "x", "n": 1}))
    with pytest.raises(batchstat.InputError, match="cannot tell the text column"):
        batchstat.profile(tmp_path / "a.jsonl")
    assert len(batchstat.profile(tmp_path / "a.jsonl", text_column=name)) == 1


def test_line_ends_in_quoted_fields_of_tsv(tmp_path):
    (tmp_path / "a.tsv").write_text('id\tdoc\n1\t"first line\n\nsecond line"\n')
    with pytest.raises(batchstat.InputError, match=r"number of fields is 1, not 2: pass quote"):
        batchstat.profile(tmp_path / "a.tsv", text_column="doc")
    profile = batchstat.profile(tmp_path / "a.tsv", text_column="doc", quote=True)
    assert batchstat.read_samples(profile) == [{"text": "first line\n\nsecond line"}]


def test_one_object_that_is_a_sample_or_has_many_by_id(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"text": "a b", "label": [[0, 1, "PER"]]}))
    with pytest.raises(batchstat.InputError, match="put it into a list if it is a sample"):
        batchstat.profile(path)
    path.write_text(json.dumps({f"s {i}": [{"word": "a"}, {"word": "b"}] for i in range(30)}))
    with pytest.raises(batchstat.InputError, match=re.escape('records="[]" if each list')):
        batchstat.profile(path)
    assert len(batchstat.profile(path, records="[][]", text_column="word")) == 60
    first_row = "A text of a review; " * 40
    (tmp_path / "a.csv").write_text(f"{first_row},1\n{first_row},0\n")
    with pytest.raises(batchstat.InputError, match="header=False") as raised:
        batchstat.profile(tmp_path / "a.csv")
    assert len(str(raised.value)) < 400
