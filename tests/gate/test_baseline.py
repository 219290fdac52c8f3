"""Baselines: kept in the repository, compared with, and not with what is not comparable."""

import json
import re
from pathlib import Path

import pytest

from conftest import Run, resealed, two_words_definition

SETTINGS = ["--tokens-per-batch", 64, "--read-ahead", 20, "--max-length", 64]
SETTINGS += ["--current", "token-budget"]


def corpus(path: Path, spread: int) -> None:
    texts = ["word " * (5 + i % spread) for i in range(200)]
    path.write_text("".join(f"{text}\n" for text in texts))


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    corpus(tmp_path / "a.txt", 3)
    saved = run("baseline", "save", "a.txt", *SETTINGS)
    assert saved.returncode == 0, saved.stderr
    assert saved.stdout == ""
    return tmp_path


CHECK = ["check", "a.txt", *SETTINGS, "--baseline", "batchstat-baseline.json"]


def test_the_file_is_small_and_the_same_for_the_same(folder, run: Run):
    path = folder / "batchstat-baseline.json"
    first = path.read_bytes()
    assert len(first) < 4000
    assert str(folder) not in first.decode()
    assert run("baseline", "save", "a.txt", *SETTINGS).returncode == 0
    assert path.read_bytes() == first


def test_worse_padding_fails_by_as_much_as_it_is_worse(folder, run: Run):
    kept = run(*CHECK)
    assert kept.returncode == 0, kept.stderr
    assert "max-increase" in kept.stdout
    before = json.loads((folder / "batchstat-baseline.json").read_text())["checks"]["default"]
    corpus(folder / "a.txt", 9)
    broken = run(*CHECK, "--format", "json")
    assert broken.returncode == 1
    [outcome] = json.loads(broken.stdout)["checks"][0]["limits"]
    assert outcome["name"] == "max-increase"
    assert outcome["before"] == before["numbers"]["strategy.padding_ratio"]
    rise = outcome["value"] - outcome["before"]
    assert outcome["over"] == pytest.approx(rise)
    assert outcome["set_in"] == "a default, which --max-increase changes"
    text = run(*CHECK).stdout
    assert re.search(r"limit +value +allowed +before +difference +outcome\n", text)
    assert "FAIL     max-increase: padding rose from " in text
    assert run(*CHECK, "--max-increase", f"{100 * rise + 0.01:.2f}pp").returncode == 0
    assert run(*CHECK, "--max-increase", f"{100 * rise - 0.01:.2f}pp").returncode == 1
    corpus(folder / "a.txt", 1)
    better = run(*CHECK)
    assert better.returncode == 0
    assert "-" in better.stdout.split("max-increase")[1]


def test_other_numbers_may_be_given_an_increase(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\ntokens-per-batch = 64\nread-ahead = 20\nmax-length = 64\n"
        "baseline = 'batchstat-baseline.json'\n"
        "[limits]\nlengths.sum = {max-increase = 100}\nstrategy.fill = {max-decrease = '5pp'}\n"
        "'truncation[0].tokens' = {max-increase = 0}\n"
    )
    assert run("baseline", "save").returncode == 0
    numbers = json.loads((folder / "batchstat-baseline.json").read_text())["checks"]["default"]
    assert "truncation[0].tokens" in numbers["numbers"]
    result = run("check")
    assert result.returncode == 0, result.stderr
    assert "max-increase lengths.sum" in result.stdout
    corpus(folder / "a.txt", 9)
    result = run("check", "--format", "json")
    assert result.returncode == 1
    [check] = json.loads(result.stdout)["checks"]
    failed = {each["name"]: each["over"] for each in check["limits"] if each["status"] == "fail"}
    assert failed["max-increase lengths.sum"] > 100


def test_a_baseline_of_which_nothing_is_held(folder, run: Run):
    (folder / "batchstat.toml").write_text("[limits]\nmax-increase = 'off'\n")
    result = run(*CHECK)
    assert result.returncode == 2
    assert "there are no limits to check" in result.stderr


def test_difference_and_limit_differ_on_screen_where_they_differ(folder, run: Run):
    record = json.loads((folder / "batchstat-baseline.json").read_text())
    check = record["checks"]["default"]
    check["numbers"]["strategy.padding_ratio"] -= 0.00503
    record["checks"]["default"] = resealed(check, "default")
    (folder / "batchstat-baseline.json").write_text(json.dumps(record))
    result = run(*CHECK, "--max-increase", "0.5pp")
    assert result.returncode == 1
    assert re.search(r"\+0\.500 pp .* \+0\.503 pp +fail", result.stdout)
    assert "rerun batchstat baseline save" in result.stdout or "nothing that was" in result.stdout


def test_saving_one_check_keeps_the_others(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\nbaseline = 'b.json'\n[checks.one]\n[checks.two]\nseed = 1\n"
    )
    assert run("baseline", "save").returncode == 0
    before = json.loads((folder / "b.json").read_text())["checks"]
    corpus(folder / "a.txt", 9)
    assert run("baseline", "save", "--check", "two").returncode == 0
    after = json.loads((folder / "b.json").read_text())["checks"]
    assert list(after) == ["one", "two"]
    assert after["one"] == before["one"]
    assert after["two"] != before["two"]


NOT_COMPARABLE = {
    "seed": (["--seed", 1], "seed 0 then, 1 now"),
    "budget": (["--tokens-per-batch", 65], "tokens_per_batch 64 then, 65 now"),
    "current": (["--current", "static"], 'current "token-budget" then, "static" now'),
    "reading": (["--strip"], "strip false then, true now"),
    "tokenizer": (["--tokenizer", "t.json"], "tokenizer 'builtin' then, 't.json' now"),
}


@pytest.mark.parametrize("name", NOT_COMPARABLE)
def test_what_is_not_comparable_is_no_failure(folder, run: Run, name):
    (folder / "t.json").write_text(two_words_definition().replace('"some"', '"word"'))
    options, message = NOT_COMPARABLE[name]
    result = run(*CHECK, *options)
    assert (result.returncode, result.stdout) == (3, "")
    assert f"batchstat-baseline.json is not comparable ({message}" in result.stderr


def test_a_tokenizer_of_the_same_name_and_another_definition(folder, run: Run):
    definition = two_words_definition().replace('"some"', '"word"')
    (folder / "t.json").write_text(definition)
    options = [*SETTINGS, "--tokenizer", "t.json"]
    assert run("baseline", "save", "a.txt", *options).returncode == 0
    (folder / "t.json").write_text(definition.replace('"words"', '"wordy"'))
    result = run("check", "a.txt", *options, "--baseline", "batchstat-baseline.json")
    assert result.returncode == 3
    assert "tokenizer 't.json' then, 't.json' with another definition now" in result.stderr


def test_a_check_that_the_baseline_does_not_have(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "corpus = 'a.txt'\nbaseline = 'batchstat-baseline.json'\n[checks.new]\n"
    )
    result = run("check")
    assert result.returncode == 3
    assert "batchstat-baseline.json has no check 'new' (has: default)" in result.stderr
    assert run("baseline", "save").returncode == 0
    assert run("check").returncode == 0


@pytest.mark.usefixtures("folder")
def test_an_increase_without_a_baseline(run: Run):
    result = run("check", "a.txt", "--max-increase", "1pp")
    assert result.returncode == 2
    assert "max-increase (set in the command line) limits a difference" in result.stderr


def test_a_number_that_the_baseline_does_not_have(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "[limits]\n'truncation[0].tokens' = {max-increase = 0}\n"
    )
    result = run(*CHECK)
    assert result.returncode == 3
    assert "the baseline has no truncation[0].tokens" in result.stderr


def test_the_increase_of_padding_is_held_unless_it_is_off(folder, run: Run):
    corpus(folder / "a.txt", 9)
    (folder / "batchstat.toml").write_text("[limits]\nlengths.sum = {max-increase = 10000}\n")
    assert "FAIL     max-increase: padding rose" in run(*CHECK).stdout
    (folder / "batchstat.toml").write_text("[limits]\nmax-increase = 'off'\nmax-padding = '1.0'\n")
    assert run(*CHECK).returncode == 0


def test_a_baseline_of_the_kept_profile_knows_how_it_was_read(folder, run: Run):
    (folder / "b.csv").write_text("text,n\nsome words,5\nmore of them,7\n")
    assert run("profile", "b.csv", "--text-column", "text", "--no-plots").returncode == 0
    assert run("baseline", "save", "--baseline", "b.json").returncode == 0
    assert run("check", "--baseline", "b.json").returncode == 0
    assert run("profile", "b.csv", "--length-column", "n", "--no-plots").returncode == 0
    assert run("check", "--baseline", "b.json").returncode == 3


EMPTY = '{"schema": "batchstat.baseline/4", "checks": {"default": %s}}'
DAMAGED = [
    "",
    "[]",
    "{",
    "\x00\xff",
    '{"schema": "batchstat.baseline/4"}',
    EMPTY % "5",
    EMPTY % '{"tokenizer": {}, "settings": {}, "numbers": {"lengths.max": NaN}}',
    EMPTY % ('{"tokenizer": {}, "settings": {}, "numbers": {"lengths.max": 1%s}}' % ("0" * 400)),
    "[" * 100_000,
    EMPTY % '{"tokenizer": {}, "settings": {}, "numbers": {"lengths.max": "5"}}',
]


@pytest.mark.slow
@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_baselines(folder, run: Run, text):
    (folder / "batchstat-baseline.json").write_text(text, encoding="latin-1")
    result = run(*CHECK)
    assert result.returncode == 3
    [line] = result.stderr.splitlines()
    assert "batchstat-baseline.json is not a baseline" in line
