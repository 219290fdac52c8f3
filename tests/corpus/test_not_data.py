"""Files that can be opened and hold no corpus are refused, in whatever format they are read."""

import io
import pickle
import zipfile

import numpy as np
import pytest

import batchstat

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064d}\nsize 24264603\n"


@pytest.mark.parametrize(
    "ending", ["txt", "csv", "tsv", "jsonl", "json", "parquet", "arrow", "npy"]
)
def test_a_pointer_of_git_lfs(tmp_path, ending):
    for i in range(2):
        (tmp_path / f"part-{i}.txt").write_text("a line of text\n" * 9)
    path = tmp_path / f"part-2.{ending}"
    path.write_text(POINTER)
    message = rf"part-2\.{ending} is a Git LFS pointer, not the data: run git lfs pull"
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.profile(path)
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.profile(tmp_path)


def test_no_check_keeps_its_limits_on_a_pointer(run, tmp_path):
    (tmp_path / "a.txt").write_text(POINTER)
    result = run("check", tmp_path / "a.txt", "--max-truncated", "1%", "--max-padding", "99%")
    assert result.returncode == 3
    assert "git lfs pull" in result.stderr


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "text\n")
    return file.getvalue()


IDS = np.random.default_rng(0).integers(0, 50_000, 5_000)
THINGS = {
    "a zip archive": zipped(),
    "an index of Megatron's": b"MMIDIDX\x00\x00" + bytes(100),
    "binary, not text": IDS.astype(np.uint16).tobytes(),
    "binary, not text: ": IDS.astype(np.int32).tobytes(),
    "a pickle": pickle.dumps({"text": ["a"] * 10}),
    "a PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "a git-annex pointer": b"/annex/objects/SHA256E-s3--abc.txt\n",
}


@pytest.mark.parametrize("kind", THINGS)
def test_what_is_no_text(tmp_path, kind):
    for name in ("data.bin", "data.txt", "data.csv"):
        (tmp_path / name).write_bytes(THINGS[kind])
        with pytest.raises(batchstat.InputError, match=f"{name} is {kind}") as raised:
            batchstat.profile(tmp_path / name, on_warning=lambda _: None)
        assert "encoding" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "version https://example.org of the text\n",
        "PK is a name\n",
        "a NUL \0 in a text\n" * 3,
        "\x1b[31mred\x1b[0m\n",
        "日本語のテキスト\n",
    ],
)
def test_what_is_text(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    assert len(batchstat.profile(tmp_path / "a.txt")) == text.count("\n")


@pytest.mark.parametrize(
    "names",
    [
        ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
        ("train.jsonl", "validation.jsonl"),
        ("train/0.jsonl", "test/0.jsonl"),
        ("de_train.jsonl", "train_2.jsonl", "dev.jsonl"),
    ],
)
def test_splits_of_one_data_set_are_not_added_up(tmp_path, names):
    """The advice is followed: what it names is read."""
    import pandas as pd

    for number, name in enumerate(names, start=1):
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame({"text": ["a b"] * number})
        if path.suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_json(path, orient="records", lines=True)
    with pytest.raises(
        batchstat.InputError, match="has several splits: name one of them"
    ) as raised:
        batchstat.profile(tmp_path / "repo")
    advised = str(raised.value).partition("one of them: ")[2].split(", ")
    assert len(advised) == 2
    assert all(len(batchstat.profile(each)) for each in advised)


@pytest.mark.parametrize(
    "names",
    [("a.jsonl", "b.jsonl"), ("test.jsonl", "b.jsonl"), ("training_a.jsonl", "trains.jsonl")],
)
def test_other_names_are_one_corpus(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text('{"text": "a"}\n')
    assert len(batchstat.profile(tmp_path)) == len(names)
