"""Every mistake ends in one line, with its exit code, and leaves earlier results as they were."""

import json
from pathlib import Path

import pytest

GOOD = "text,label\nsome words,a\nmore words than that,b\n"


def write(folder: Path, name: str, content: str | bytes | None) -> None:
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)


CORPORA = [
    ("nowhere.txt", None, [], "no such file: nowhere.txt"),
    ("empty.txt", b"", [], "empty.txt is empty"),
    ("blank.txt", "\n  \n\t\n", [], "no samples in blank.txt: all records were skipped (3 blank)"),
    ("header.csv", "text\n", [], "no samples in header.csv: it has no records"),
    ("short.txt", "ab\n\ncd\n", ["--min-chars", 3], "(1 blank, 2 short)"),
    ("a.txt", b"ok\nfine\nnot \xff\n", [], "a.txt, line 3: byte 12 is not UTF-8 (0xff)"),
    ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', [], "a.jsonl, line 2: malformed JSON"),
    ("a.csv", GOOD, ["--text-column", "body"], "column 'body' not in a.csv (has: text, label)"),
    ("a.csv", GOOD, ["--label-column", "class"], "column 'class' not in a.csv"),
    ("a.csv", GOOD, ["--tokenizer", "./nowhere"], "tokenizer './nowhere': no such file or folder"),
    ("a.csv", GOOD, ["--tokenizer", "no-such-model"], "tokenizer 'no-such-model' cannot be loaded"),
    ("a.csv", GOOD, ["--tokenizer", "a.csv"], "tokenizer 'a.csv' cannot be loaded"),
    ("a.csv", GOOD, ["-o", "a.csv"], "a.csv cannot be written: "),
    ("a.csv", GOOD, ["-o", "a.csv/deeper"], "a.csv/deeper cannot be written: "),
    ("folder", None, [], "no data files in folder"),
]


@pytest.mark.parametrize("command", ["profile", "compare"])
@pytest.mark.parametrize(("name", "content", "options", "message"), CORPORA)
def test_an_input_that_gives_no_answer(run, tmp_path, command, name, content, options, message):
    (tmp_path / "folder").mkdir()
    write(tmp_path, name, content)
    results = tmp_path / "batchstat-results"
    results.mkdir()
    (results / "profile.json").write_text("earlier")
    result = run(command, name, *options)
    assert result.returncode == 3, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert [path.name for path in results.iterdir()] == ["profile.json"]
    assert (results / "profile.json").read_text() == "earlier"


OPTIONS = [
    (["--strategy", "pack"], "unknown strategy 'pack'"),
    (["--strategy", "tokenbudget"], "did you mean 'token-budget'?"),
    (["--strategy", "static:batchsize=3"], "did you mean 'batch_size'?"),
    (["--strategy", "static:batch_size=0"], "batch_size=0: must be between 1"),
    (["--tokens-per-batch", 0], "tokens_per_batch=0: must be between 1 and 2,147,483,647"),
    (["--tokens-per-batch", -5], "tokens_per_batch=-5"),
    (["--tokens-per-batch", 10**30], "must be between"),
    (["--tokens-per-batch", "1.5"], "--tokens-per-batch='1.5': must be a whole number"),
    (["--read-ahead", "many"], "--read-ahead='many': must be a whole number"),
    (["--max-length", 0], "max_length=0: must be between 1"),
    (["--gradient-accumulation-steps", 0], "gradient_accumulation_steps=0: must be between 1"),
    (["--seed", -1], "seed=-1: must be between 0"),
    (["--order", "sorted"], "unknown order 'sorted'"),
    (["--overflow", "clip"], "unknown overflow 'clip'"),
    (["--min-chars", -1], "min_chars=-1: must be between 0"),
    (["--no-header", "--text-column", "text"], "name columns by number, from 0"),
    (["--tokns-per-batch", 5], "--tokens-per-batch"),
    (["--frobnicate"], "unknown option '--frobnicate' of batchstat compare"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_arguments_that_are_wrong_by_themselves(run, tmp_path, options, message):
    write(tmp_path, "a.csv", GOOD)
    result = run("compare", "a.csv", *options)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert message in result.stderr
    assert not (tmp_path / "batchstat-results").exists()


def test_arguments_are_checked_before_the_corpus(run):
    assert run("compare", "nowhere.txt", "--seed", -1).returncode == 2
    assert run("compare", "nowhere.txt", "--strategy", "x").returncode == 2
    assert run("profile", "nowhere.txt", "--min-chars", -1).returncode == 2


def test_compare_with_neither_corpus_nor_profile(run):
    result = run("compare")
    assert result.returncode == 3
    assert (
        "no profile in batchstat-results: name a corpus, or run batchstat profile" in result.stderr
    )


@pytest.mark.parametrize("option", [["--tokenizer", "builtin"], ["--strip"], ["--min-chars", "2"]])
def test_options_for_counting_need_a_corpus(run, option):
    result = run("compare", *option)
    assert result.returncode == 2
    assert f"{option[0]} needs a corpus to count: name one" in result.stderr


def test_settings_that_leave_nothing(run, tmp_path):
    write(tmp_path, "a.csv", GOOD)
    result = run("compare", "a.csv", "--max-length", 1, "--overflow", "drop")
    assert result.returncode == 3
    assert "overflow=drop leaves no sample" in result.stderr
    result = run("compare", "a.csv", "--batch-size", 50, "--drop-last")
    assert result.returncode == 3
    assert "no batches left: " in result.stderr
    assert not (tmp_path / "batchstat-results").exists()


def test_a_damaged_profile_is_named(run, tmp_path):
    (tmp_path / "batchstat-results").mkdir()
    write(tmp_path, "batchstat-results/lengths.parquet", "damaged")
    result = run("compare")
    assert result.returncode == 3
    assert "batchstat-results/lengths.parquet is not a profile" in result.stderr
    write(tmp_path, "a.csv", GOOD)
    assert run("compare", "a.csv", "--no-plots").returncode == 0


def test_a_file_in_the_place_of_the_plots_folder(run, tmp_path):
    write(tmp_path, "a.csv", GOOD)
    (tmp_path / "batchstat-results").mkdir()
    write(tmp_path, "batchstat-results/plots", "in the way")
    write(tmp_path, "batchstat-results/profile.json", "earlier")
    result = run("profile", "a.csv")
    assert result.returncode == 3
    assert "batchstat-results/plots cannot be written: it is not a folder" in result.stderr
    assert (tmp_path / "batchstat-results" / "profile.json").read_text() == "earlier"
    left = sorted(path.name for path in (tmp_path / "batchstat-results").iterdir())
    assert left == ["plots", "profile.json"]


@pytest.mark.slow
def test_a_crash_is_no_limit_and_says_what_it_is(tmp_path):
    import subprocess
    import sys

    from conftest import environment

    code = (
        "import sys, batchstat.profiling.worker as j; j.key_of = lambda *given: 1 / 0;"
        "sys.argv = ['batchstat', 'profile', 'a.csv'];"
        "from batchstat.__main__ import main; main()"
    )
    write(tmp_path, "a.csv", GOOD)
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 3
    assert "this is a bug, please report it" in result.stderr.splitlines()[-1]


def test_a_record_without_labels_elsewhere_is_still_json(run, tmp_path):
    write(tmp_path, "a.jsonl", '{"text": "a", "y": null}\n{"text": "b b", "y": "\\u0000\\u2028"}\n')
    result = run("profile", "a.jsonl", "--label-column", "y", "--json", "--no-plots")
    labels = {each["label"] for each in json.loads(result.stdout)["classes"]}
    assert labels == {None, "\x00\u2028"}
