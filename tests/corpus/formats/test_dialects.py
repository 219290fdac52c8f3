"""Delimited text as people have it: other separators, quotes, blanks and encodings."""

import csv
import io
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchstat

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

FIELDS = st.text(st.sampled_from(list('ab ;,|\t"\\\n')), min_size=1, max_size=8)


def texts_of(path, **options) -> list[str]:
    profile = batchstat.profile(path, **{"text_column": "text"} | options)
    samples = batchstat.read_samples(profile)
    return [sample["text"] for sample in samples if sample is not None]


def of_pandas(path, **options) -> list[str]:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    return [text for text in frame["text"] if text.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dialects")


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6),
    separator=st.sampled_from([";", "|", "\t", ","]),
    name=st.sampled_from(["a.csv", "a.tsv"]),
)
def test_any_separator_is_read_as_pandas_reads_it(folder, rows, separator, name):
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([("text", "label"), *rows])
    expected = of_pandas(folder / name, sep=separator)
    if not expected:
        return
    assert texts_of(folder / name, separator=separator, quote=True) == expected


@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
def test_quotes_behind_a_backslash(folder, rows):
    with (folder / "b.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, doublequote=False, escapechar="\\", quoting=csv.QUOTE_ALL)
        writer.writerows([("text", "label"), *rows])
    expected = of_pandas(folder / "b.csv", escapechar="\\")
    if not expected:
        return
    assert texts_of(folder / "b.csv", backslash=True) == expected


@pytest.mark.parametrize(
    ("name", "content", "advised"),
    [
        ("a.csv", "text;label\nhello there;pos\nbye;neg\n", ";"),
        ("b.csv", "text|label\nhello there|pos\nbye|neg\n", "|"),
        ("c.csv", "label;text\n1;Yes, very good\n0;No\n", ";"),
        ("d.csv", "text\tlabel\nhello, there\tpos\nbye\tneg\n", "tab"),
        ("e.tsv", "text,label\nhello,pos\n", ","),
    ],
)
def test_a_header_of_one_column_names_the_separator(tmp_path, name, content, advised):
    """The advice is followed, and gives what pandas reads."""
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(
        batchstat.InputError, match=re.escape("separator=") + f'"?{re.escape(advised)}"?$'
    ):
        batchstat.profile(path)
    separator = "\t" if advised == "tab" else advised
    found = texts_of(path, separator=advised, label_column="label")
    assert found == of_pandas(path, sep=separator)


@pytest.mark.parametrize(
    "content", ["text\na; b\nc\n", "a;b\nx\ny;z\n", "text\n", "a, text and more\nx; y\n"]
)
def test_a_column_by_itself_may_have_other_separators(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(batchstat.InputError) as raised:
        batchstat.profile(tmp_path / "a.csv", label_column="none")
    assert "separator" not in str(raised.value)


def test_blanks_behind_separators(tmp_path):
    (tmp_path / "a.csv").write_text('text, label, note\n"a, b", x, "c, d"\ne, y, f\n')
    profile = batchstat.profile(tmp_path / "a.csv", text_column="note", label_column="label")
    assert [c.label for c in profile.classes] == ["x", "y"]
    assert texts_of(tmp_path / "a.csv", text_column="note") == ["c, d", "f"]


def test_quoted_fields_in_tsv_are_asked_about(tmp_path):
    frame = pd.DataFrame({"text": ["plain", 'she said "no"', "a\tb"], "label": [1, 2, 3]})
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    with pytest.raises(batchstat.InputError, match=r"line 3: fields are quoted.* pass quote"):
        batchstat.profile(tmp_path / "a.tsv")
    assert texts_of(tmp_path / "a.tsv", quote=True) == frame["text"].tolist()
    frame.iloc[[0]].to_csv(tmp_path / "b.tsv", sep="\t", index=False, quoting=csv.QUOTE_ALL)
    with pytest.raises(batchstat.InputError, match=r"line 1: fields are quoted"):
        batchstat.profile(tmp_path / "b.tsv")
    # A tab or a line end in quotes.
    frame.iloc[[2]].to_csv(tmp_path / "c.tsv", sep="\t", index=False)
    with pytest.raises(batchstat.InputError, match=r"number of fields is 3, not 2: pass quote"):
        batchstat.profile(tmp_path / "c.tsv")
    # Quotes that begin a text are no sign of it.
    (tmp_path / "d.tsv").write_text('text\tlabel\n"Well", he said\t1\n""\t2\n"so ""so\t3\n')
    assert texts_of(tmp_path / "d.tsv", text_column="text") == ['"Well", he said', '""', '"so ""so']


def test_advice_about_escaped_quotes_works(tmp_path):
    (tmp_path / "a.csv").write_text('text,label\n"she said \\"no\\", twice",1\n"b",2\n')
    with pytest.raises(batchstat.InputError, match="pass backslash"):
        batchstat.profile(tmp_path / "a.csv")
    assert texts_of(tmp_path / "a.csv", backslash=True) == ['she said "no", twice', "b"]


@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "gb18030", "utf-8-sig"]
)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.json"])
def test_other_encodings(tmp_path, encoding, name):
    words = ["Grüße aus Köln", "façade", "plain"] * 100
    content = io.StringIO()
    frame = pd.DataFrame({"text": words})
    if name == "a.csv":
        frame.to_csv(content, index=False)
    elif name == "a.txt":
        content.write("\n".join(words) + "\n")
    else:
        frame.to_json(content, orient="records", lines=name == "a.jsonl", force_ascii=False)
    (tmp_path / name).write_bytes(content.getvalue().encode(encoding))
    column = {} if name == "a.txt" else {"text_column": "text"}
    (tmp_path / "utf8").mkdir()
    (tmp_path / "utf8" / name).write_text(content.getvalue(), encoding="utf-8")
    here = batchstat.profile(tmp_path / name, encoding=encoding, **column)
    there = batchstat.profile(tmp_path / "utf8" / name, **column)
    assert here.lengths.tolist() == there.lengths.tolist()
    assert [each["text"] for each in batchstat.read_samples(here)] == words
