"""Bases: a check compared with a revision of its repository, or with an earlier check's JSON."""

import json
import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import batchstat
from batchstat.gate.base import base_in
from conftest import Run, two_words_definition

SETTINGS = ["--tokens-per-batch", 64, "--read-ahead", 20, "--max-length", 64]
SETTINGS += ["--current", "token-budget"]


def corpus(path: Path, spread: int) -> None:
    texts = ["word " * (5 + i % spread) for i in range(200)]
    path.write_text("".join(f"{text}\n" for text in texts))


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    corpus(tmp_path / "a.txt", 3)
    saved = run("check", "a.txt", *SETTINGS, "--max-padding", "100%", "--format", "json=base.json")
    assert saved.returncode == 0, saved.stderr
    return tmp_path


CHECK = ["check", "a.txt", *SETTINGS, "--base", "base.json"]


def test_worse_padding_fails_by_as_much_as_it_is_worse(folder, run: Run):
    kept = run(*CHECK)
    assert kept.returncode == 0, kept.stderr
    assert "max-increase" in kept.stdout
    assert "changed  nothing since base.json\n" in kept.stdout
    [before] = json.loads((folder / "base.json").read_text())["checks"]
    corpus(folder / "a.txt", 9)
    broken = run(*CHECK, "--format", "json")
    assert broken.returncode == 1
    [outcome] = json.loads(broken.stdout)["checks"][0]["limits"]
    assert outcome["name"] == "max-increase"
    assert outcome["before"] == before["report"]["strategy"]["padding_ratio"]
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


def test_every_number_with_a_limit_is_compared(folder, run: Run):
    """A rise that no limit is on fails nothing: the limits decide."""
    (folder / "batchstat.toml").write_text(
        "[limits]\nmax-padding = '99%'\nlengths.sum = {max-increase = 100}\n"
        "strategy.fill = {max-decrease = '5pp'}\n'truncation[0].tokens' = {max-increase = 0}\n"
    )
    assert run(*CHECK).returncode == 0
    corpus(folder / "a.txt", 9)
    result = run(*CHECK, "--format", "json")
    assert result.returncode == 1
    [before] = json.loads((folder / "base.json").read_text())["checks"]
    [check] = json.loads(result.stdout)["checks"]
    befores = {each["path"]: each["before"] for each in check["limits"]}
    assert befores["strategy.padding_ratio"] == before["report"]["strategy"]["padding_ratio"]
    assert befores["lengths.sum"] == before["report"]["lengths"]["sum"]
    failed = {each["name"]: each["over"] for each in check["limits"] if each["status"] == "fail"}
    assert failed["max-increase lengths.sum"] > 100
    assert "max-padding" not in failed


def test_a_base_of_which_nothing_is_held(folder, run: Run):
    (folder / "batchstat.toml").write_text("[limits]\nmax-increase = 'off'\n")
    result = run(*CHECK)
    assert result.returncode == 2
    assert "there are no limits to check" in result.stderr


def test_difference_and_limit_differ_on_screen_where_they_differ(folder, run: Run):
    document = json.loads((folder / "base.json").read_text())
    document["checks"][0]["report"]["strategy"]["padding_ratio"] -= 0.00503
    (folder / "base.json").write_text(json.dumps(document))
    result = run(*CHECK, "--max-increase", "0.5pp")
    assert result.returncode == 1
    assert re.search(r"\+0\.500 pp .* \+0\.503 pp +fail", result.stdout)


CHANGES = {
    "seed": (["--seed", 1], "seed 0 → 1"),
    "budget": (["--tokens-per-batch", 65], "tokens_per_batch 64 → 65"),
    "current": (["--current", "static"], "current token-budget → static"),
    "reading": (["--strip"], "strip false → true"),
    "tokenizer": (["--tokenizer", "t.json"], "tokenizer builtin → t.json"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_is_the_reason_of_a_change(folder, run: Run, name):
    (folder / "t.json").write_text(two_words_definition().replace('"some"', '"word"'))
    options, change = CHANGES[name]
    result = run(*CHECK, *options, "--max-padding", "100%", "--format", "json")
    assert result.returncode == 0, result.stderr
    [check] = json.loads(result.stdout)["checks"]
    assert check["since"]["base"] == "base.json"
    assert check["since"]["changes"][0] == change


def test_a_tokenizer_of_the_same_name_and_another_definition(folder, run: Run):
    definition = two_words_definition().replace('"some"', '"word"')
    (folder / "t.json").write_text(definition)
    options = [*SETTINGS, "--tokenizer", "t.json", "--max-padding", "100%"]
    assert run("check", "a.txt", *options, "--format", "json=base.json").returncode == 0
    (folder / "t.json").write_text(definition.replace('"words"', '"wordy"'))
    result = run("check", "a.txt", *options, "--base", "base.json")
    assert "since base.json: another definition of tokenizer t.json" in result.stdout


def test_the_files_that_changed_are_named_by_what_is_in_them(tmp_path, run: Run):
    """Samples and means against those of the arrays; three files of the most tokens, and a rest."""
    rng = np.random.default_rng(3)
    before = {f"{name}.npy": rng.integers(5, 30, 40) for name in "abcdef"}
    after = dict(before)
    after["a.npy"] = np.concatenate([before["a.npy"], rng.integers(400, 500, 30)])
    after["b.npy"] = before["b.npy"][:-1]
    after["new.npy"] = rng.integers(90, 99, 21)
    after["few.npy"] = np.array([3])
    del after["c.npy"]
    (tmp_path / "data").mkdir()
    for name, lengths in before.items():
        np.save(tmp_path / "data" / name, lengths)
    check = ["check", "data", "--max-padding", "100%"]
    assert run(*check, "--format", "json=base.json").returncode == 0
    for name in before:
        (tmp_path / "data" / name).unlink()
    for name, lengths in after.items():
        np.save(tmp_path / "data" / name, lengths)
    result = run(*check, "--base", "base.json", "--format", "json")
    changes = json.loads(result.stdout)["checks"][0]["since"]["changes"]
    usual = np.concatenate(list(before.values())).mean()
    means = [each["a.npy"].mean() for each in (before, after)]
    assert changes[:4] == [
        f"30 more samples in data/a.npy ({means[0]:,.1f} → {means[1]:,.1f} tokens on average)",
        f"21 longer samples in data/new.npy ({after['new.npy'].mean():,.1f} tokens on average, "
        f"{usual:,.1f} before)",
        f"40 {'longer' if before['c.npy'].mean() > usual else 'shorter'} samples no longer in "
        f"data/c.npy ({before['c.npy'].mean():,.1f} tokens on average, {usual:,.1f} before)",
        "2 other files",
    ]


def test_python_compares_with_the_file_of_the_command(folder):
    profile = batchstat.profile(folder / "a.txt")
    settings = {"tokens_per_batch": 64, "read_ahead": 20, "max_length": 64}
    named = {"current": "token-budget", "base": folder / "base.json", **settings}
    same = batchstat.check(profile, {}, **named)
    assert [outcome.limit.name for outcome in same.outcomes] == ["max-increase"]
    assert same.status == "pass"
    assert same.since.changes == ()  # the path differs, and the file is the same
    corpus(folder / "a.txt", 9)
    worse = batchstat.check(batchstat.profile(folder / "a.txt"), {}, **named)
    assert worse.status == "fail"


def test_a_check_that_the_base_does_not_have(folder, run: Run):
    (folder / "batchstat.toml").write_text("corpus = 'a.txt'\nbase = 'base.json'\n[checks.new]\n")
    result = run("check")
    assert result.returncode == 3
    assert "base.json has no check 'new' (has: 'default')" in result.stderr
    assert "--format json=FILE" in result.stderr


@pytest.mark.usefixtures("folder")
def test_an_increase_without_a_base(run: Run):
    result = run("check", "a.txt", "--max-increase", "1pp")
    assert result.returncode == 2
    assert "max-increase (set in the command line) limits a difference" in result.stderr


def test_a_number_that_the_base_does_not_have(folder, run: Run):
    (folder / "batchstat.toml").write_text(
        "label-column = 'y'\n[limits]\n'classes[label=spam].share' = {max-increase = '1pp'}\n"
    )
    (folder / "a.csv").write_text("text,y\nsome words,spam\nmore of them,ham\n")
    result = run("check", "a.csv", "--base", "base.json")
    assert result.returncode == 3
    assert "base.json has no classes[label=spam].share" in result.stderr


WRONG = [
    "",
    "[]",
    "{",
    "\x00\xff",
    '{"schema": "batchstat.check/6"}',
    '{"schema": "batchstat.check/7"}',
    '{"schema": "batchstat.check/7", "checks": 5}',
    '{"schema": "batchstat.check/7", "tool": {"version": "1"}, "checks": [5]}',
    "[" * 100_000,
]


def changed_at_random(document: object, rng: np.random.Generator) -> object:
    """The document with one value, anywhere in it, replaced by one of another kind."""
    other = [None, "x", -1, {}, [], 1e300, True][rng.integers(7)]
    if isinstance(document, dict) and document and rng.random() < 0.9:
        key = list(document)[rng.integers(len(document))]
        return {**document, key: changed_at_random(document[key], rng)}
    if isinstance(document, list) and document and rng.random() < 0.9:
        place = int(rng.integers(len(document)))
        return [*document[:place], changed_at_random(document[place], rng), *document[place + 1 :]]
    return other


def test_a_file_that_is_no_report_is_an_error_of_the_input(folder, run: Run):
    for text in WRONG:
        (folder / "base.json").write_text(text, encoding="latin-1")
        result = run(*CHECK)
        assert result.returncode == 3, text[:80]
        [line] = result.stderr.splitlines()
        assert line.startswith("error: base.json ")
        assert "batchstat check --format json=FILE" in line


def test_an_edited_report_gives_an_answer_or_an_error(folder):
    """Not one of 400 wrong values anywhere in a report crashes."""
    document = json.loads((folder / "base.json").read_text())
    report, rng = document["checks"][0]["report"], np.random.default_rng(0)
    paths = ("strategy.padding_ratio", "lengths.p99", "truncation[0].tokens", "corpus.samples")
    for _ in range(400):
        edited = json.dumps(changed_at_random(document, rng))
        with suppress(batchstat.InputError):
            base = base_in(edited, "default", "base.json")
            assert all(isinstance(base.number(path), int | float | None) for path in paths)
            assert base.since("token-budget", report, "0").base == "base.json"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """On `main` a corpus of short texts; on `longer`, which is checked out, one more file."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "data").mkdir()
    corpus(tmp_path / "data" / "a.txt", 3)
    (tmp_path / "batchstat.toml").write_text(
        "corpus = 'data'\ncurrent = 'hf-trainer'\n[limits]\nmax-padding = '99%'\n"
    )
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    git(tmp_path, "checkout", "--quiet", "-b", "longer")
    (tmp_path / "data" / "new.txt").write_text(f"{'word ' * 60}\n" * 30)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "two")
    return tmp_path


def check_at(run: Run, *arguments: object, **where: object) -> dict:
    result = run("check", *arguments, "--format", "json", **where)
    assert result.returncode in (0, 1), result.stderr
    [check] = json.loads(result.stdout)["checks"]
    return check


def test_a_revision_has_the_numbers_of_its_own_checkout(repository, run: Run):
    compared = check_at(run, "--base", "main")
    again = check_at(run, "--base", "main")  # from the cache
    fresh = check_at(run, "--base", "main", "--no-cache")
    assert compared["since"] == again["since"] == fresh["since"]
    assert compared["since"]["changes"][0].startswith("30 longer samples in data/new.txt (61.0 ")
    git(repository, "checkout", "--quiet", "main")
    there = check_at(run)
    for one in (compared, again, fresh):
        assert one["limits"][0]["before"] == there["limits"][0]["value"]
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "status", "--porcelain") == ""
    # Elsewhere in the repository, and as absolute paths, the same.
    git(repository, "checkout", "--quiet", "longer")
    data = repository / "data"
    absolute = check_at(run, repository / "data", "--base", "main")
    inside = check_at(run, "--base", "main", cwd=data)
    assert absolute["limits"][0]["before"] == inside["limits"][0]["before"]
    assert len(absolute["since"]["changes"]) == len(compared["since"]["changes"])
    assert inside["since"]["changes"] == [
        change.replace("data/new.txt", "new.txt") for change in compared["since"]["changes"]
    ]


def test_what_is_not_committed_is_compared_with_what_is(repository, run: Run):
    assert check_at(run, "--base", "HEAD")["since"]["changes"] == []
    corpus(repository / "data" / "a.txt", 9)
    [change, *_] = check_at(run, "--base", "HEAD")["since"]["changes"]
    assert change.startswith("as many samples in data/a.txt (")


def test_a_revision_is_where_the_work_began(repository, run: Run):
    """What others have merged since is none of this change."""
    git(repository, "checkout", "--quiet", "main")
    (repository / "data" / "theirs.txt").write_text("word\n" * 500)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "theirs")
    git(repository, "checkout", "--quiet", "longer")
    assert "theirs" not in str(check_at(run, "--base", "main")["since"])


def test_a_corpus_that_is_not_in_the_repository_is_compared_as_it_was_checked(repository, run: Run):
    """As in CI, where a job downloads it: the job on main leaves its numbers in the cache."""
    (repository / ".gitignore").write_text("big.txt\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "ignored")
    corpus(repository / "big.txt", 3)
    there = check_at(run, "big.txt", "--base", "longer")
    assert there["since"]["changes"] == []
    git(repository, "checkout", "--quiet", "-b", "next")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "three")
    corpus(repository / "big.txt", 9)
    found = check_at(run, "big.txt", "--base", "longer")
    assert found["limits"][0]["before"] == there["limits"][0]["value"]
    assert found["since"]["changes"][0].startswith("as many samples in big.txt")
    # Without the cache, nothing is known of it.
    unknown = run("check", "big.txt", "--base", "longer", "--no-cache")
    assert unknown.returncode == 0
    assert "longer has nothing to compare with: no such file: big.txt" in unknown.stderr
    assert "[check/no-base]" in unknown.stderr


def test_a_check_that_is_new_differs_from_nothing(repository, run: Run):
    (repository / "batchstat.toml").write_text(
        "[checks.new]\ncorpus = 'data'\n[checks.new.limits]\nmax-increase = '1pp'\n"
    )
    result = run("check", "--base", "main")
    assert result.returncode == 0, result.stderr
    assert "main has nothing to compare with: unknown check 'new'" in result.stderr
    assert "no limit was checked" in result.stdout


def test_all_checks_of_a_command_are_counted_in_one_checkout(repository, run: Run):
    """Each as it is by itself, whichever of them the cache has."""
    corpus(repository / "data" / "b.txt", 5)
    (repository / "batchstat.toml").write_text(
        "".join(
            f"[checks.{name}]\ncorpus = 'data/{name}.txt'\nlimits = {{max-padding = '99%'}}\n"
            for name in ("a", "b", "new")
        )
    )
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "three checks")
    corpus(repository / "data" / "b.txt", 9)
    (repository / "data" / "new.txt").rename(repository / "data" / "newer.txt")
    (repository / "batchstat.toml").write_text(
        (repository / "batchstat.toml").read_text().replace("new.txt", "newer.txt")
    )
    assert run("check", "--check", "a", "--base", "HEAD").returncode == 0  # into the cache

    checkouts = repository / "checkouts"
    hook = repository / ".git" / "filter.sh"
    hook.write_text(f"#!/bin/sh\necho >> '{checkouts}'\ncat\n")
    hook.chmod(0o755)
    git(repository, "config", "filter.counting.smudge", hook.as_posix())
    (repository / ".git" / "info" / "attributes").write_text("batchstat.toml filter=counting\n")
    result = run("check", "--base", "HEAD", "--format", "json")
    assert result.returncode == 0, result.stderr
    assert len(checkouts.read_text().splitlines()) == 1
    together = {each["name"]: each["since"] for each in json.loads(result.stdout)["checks"]}
    for name, since in together.items():
        assert check_at(run, "--check", name, "--base", "HEAD", "--no-cache")["since"] == since
    assert [bool(since["changes"]) for since in together.values()] == [False, True, False]


def test_an_error_of_a_check_is_as_that_of_a_command(repository, run: Run):
    (repository / "batchstat.toml").write_text(
        "[limits]\nmax-padding = '99%'\n"
        "[checks.here]\ncorpus = 'data'\n[checks.gone]\ncorpus = 'gone.txt'\n"
    )
    result = run("check", "--format", "json")
    assert result.returncode == 3
    here, gone = (each["error"] for each in json.loads(result.stdout)["checks"])
    alone = run("check", "gone.txt", "--max-padding", "99%", "--no-config", "--format", "json")
    assert here is None
    assert gone["id"] == "input/missing"
    assert gone == json.loads(alone.stdout)["checks"][0]["error"]


@pytest.mark.usefixtures("repository")
def test_no_such_revision(run: Run, tmp_path_factory):
    result = run("check", "--base", "origin/dev")
    assert result.returncode == 3
    assert "there is neither such a file nor such a revision: run git fetch origin" in result.stderr
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "a.txt").write_text("word\n")
    result = run("check", "a.txt", "--base", "main", cwd=elsewhere)
    assert result.returncode == 3
    assert "there is no such file, and git says: fatal: not a git repository" in result.stderr


def test_a_configuration_names_files_of_its_own_revision(repository, run: Run, tmp_path_factory):
    """By absolute paths; and files outside of the repository by relative ones."""
    outside = tmp_path_factory.mktemp("outside") / "b.txt"
    corpus(outside, 3)
    configuration = repository / "batchstat.toml"
    text = configuration.read_text()
    for path in ((repository / "data").as_posix(), os.path.relpath(outside, repository)):
        configuration.write_text(text.replace("'data'", f"['data/a.txt', '{path}']"))
        git(repository, "commit", "--quiet", "-am", "paths")
        corpus(repository / "data" / "a.txt", 9)
        [change, *_] = check_at(run, "--base", "HEAD")["since"]["changes"]
        assert change.startswith("as many samples in ")
        git(repository, "checkout", "--quiet", "data/a.txt")


def test_a_configuration_in_no_commit_is_no_change(repository, run: Run, tmp_path_factory):
    """It is the same at every revision, whatever the cache holds of an earlier state of it."""
    other = tmp_path_factory.mktemp("other") / "batchstat.toml"
    for size in (8, 16):
        other.write_text(
            f"corpus = '{repository / 'data'}'\nbatch-size = {size}\n"
            "[limits]\nmax-padding = '99%'\n"
        )
        changes = check_at(run, "--config", other, "--base", "main")["since"]["changes"]
        assert "30 longer samples" in changes[0]
        assert "batch_size" not in str(changes)


def test_a_revision_that_cannot_be_counted_is_no_pass(repository, run: Run):
    """Where a limit is on a difference; else a warning says that nothing is compared."""
    (repository / "data" / "bad.jsonl").write_text("{\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "bad")
    (repository / "data" / "bad.jsonl").unlink()
    assert run("check", "--base", "HEAD", "--max-increase", "1pp").returncode == 3
    result = run("check", "--base", "HEAD")
    assert result.returncode == 0
    assert "HEAD has nothing to compare with: data/bad.jsonl" in result.stderr


def test_a_path_through_a_link_is_that_of_the_revision(repository, run: Run, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(repository)
    [change, *_] = check_at(run, link / "data", "--base", "main", cwd=link)["since"]["changes"]
    assert change.startswith("30 longer samples in ")


def test_a_copy_of_a_file_is_a_change_and_a_moved_one_is_none(repository, run: Run):
    data = repository / "data"
    (data / "new.txt").rename(data / "moved.txt")
    git(repository, "add", ".")
    assert check_at(run, "--base", "HEAD")["since"]["changes"] == []
    (data / "copy.txt").write_bytes((data / "a.txt").read_bytes())
    [change, *_] = check_at(run, "--base", "HEAD")["since"]["changes"]
    assert change.startswith("200 shorter samples in data/copy.txt")


def test_a_checkout_that_git_cannot_make_is_no_pass(repository, run: Run):
    """As with files in Git LFS that cannot be downloaded; not tried again for each check."""
    tries = repository / "tries"
    git(repository, "config", "filter.broken.smudge", f"echo >> '{tries.as_posix()}'; false")
    configuration = (repository / "batchstat.toml").read_text()
    (repository / "batchstat.toml").write_text(f"{configuration}[checks.a]\n[checks.b]\n")
    git(repository, "config", "filter.broken.required", "true")
    (repository / ".git" / "info" / "attributes").write_text("data/*.txt filter=broken\n")
    assert run("check", "--check", "a", "--base", "main").returncode == 3
    of_one_check = tries.read_text()
    result = run("check", "--base", "main")
    assert result.returncode == 3
    assert result.stderr.count("git says: ") == 2
    assert tries.read_text() == of_one_check * 2
    assert git(repository, "worktree", "list").count("\n") == 1


def test_a_branch_that_is_called_as_a_folder_is(repository, run: Run):
    git(repository, "branch", "data", "main")
    assert check_at(run, "--base", "data")["since"]["base"] == "data"


def test_the_index_of_a_commit_that_is_being_made_stays(repository, run: Run):
    """As in a pre-commit hook, which git tells its repository by variables."""
    corpus(repository / "data" / "a.txt", 9)
    git(repository, "add", ".")
    index = repository / ".git" / "index"
    before = index.read_bytes()
    hook = {"GIT_DIR": ".git", "GIT_INDEX_FILE": os.fspath(index), "GIT_WORK_TREE": "."}
    [change, *_] = check_at(run, "--base", "HEAD", **hook)["since"]["changes"]
    assert change.startswith("as many samples in data/a.txt (")
    assert index.read_bytes() == before
