"""What errors and warnings tell the user to do helps, done as it is written."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import batchstat
import written
from batchstat.cli.commands import (
    balance,
    buckets,
    check,
    compare,
    init,
    measure,
    merge,
    profile,
    recipe,
)
from conftest import Cli, write_jsonl

LENGTHS = [3, 9, 27, 50, 50, 50, 80, 100, 120, 7] * 9


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Corpora of every kind, and some that are none."""
    records = [
        {
            "text": "word " * n,
            "review": "so " * n,
            "body": "no " * n,
            "n": n,
            "label": "ab"[n % 2],
            "messages": [{"role": "user", "content": "so"}],
            "conversations": [{"from": "human", "value": "so"}],
            "ids": [1] * n,
        }
        for n in LENGTHS
    ]
    write_jsonl(tmp_path / "all.jsonl", records)
    write_jsonl(tmp_path / "n.jsonl", [{"n": r["n"], "label": r["label"]} for r in records])
    write_jsonl(tmp_path / "two.jsonl", [{k: r[k] for k in ("body", "label")} for r in records])
    write_jsonl(
        tmp_path / "sharegpt.jsonl", [{"conversations": r["conversations"]} for r in records]
    )
    write_jsonl(tmp_path / "openai.jsonl", [{"messages": r["messages"]} for r in records])
    (tmp_path / "lines.json").write_text((tmp_path / "two.jsonl").read_text())
    (tmp_path / "plain.txt").write_text("some words\n" * 20)
    (tmp_path / "a.csv").write_text("body,label\nsome words,x\nmore,y\n")
    (tmp_path / "quote.csv").write_text('body,label\nthe 5" disk,x\n"more,y\n')
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 5}\n')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text((tmp_path / "two.jsonl").read_text())
    (tmp_path / "weights.json").write_text('{"a": 1, "b": 3}')
    return tmp_path


N = ["n.jsonl", "--length-column", "n"]
CLASSES = [*N, "--label-column", "label"]
PROFILED = ["profile", *CLASSES, "--no-plots"]

# What is run; what it says, of which the groups are flags to add instead of theirs.
SAID: dict[str, tuple[list[str], str]] = {
    "a column": (["profile", "two.jsonl", "--text-column", "bodi"], r"pass (--text-column body)"),
    "a chat": (["profile", "sharegpt.jsonl"], r"pass (--messages-column conversations)$"),
    "another chat": (["profile", "openai.jsonl"], r"pass (--messages-column messages)$"),
    "lines": (
        ["profile", "lines.json", "--text-column", "body"],
        r"pass (--input-format jsonl) if it has one per line",
    ),
    "a quote": (
        ["profile", "quote.csv", "--text-column", "body"],
        r"or pass (--no-quote) if quotes are part of the text",
    ),
    "a bad record": (["profile", "bad.jsonl"], r": pass (--on-error skip) to skip such records"),
    "no tokenizer": (
        ["profile", "a.csv", "--text-column", "body", "--tokenizer", "./no"],
        r"use the built-in one: (--tokenizer builtin)",
    ),
    "no edge": (
        ["compare", *N, "--strategy", "boundaries:boundaries=50"],
        r"above the last edge 50: .* with (--max-length 50)",
    ),
    "no edge of a buffer": (
        ["compare", *N, "--strategy", "lhotse:boundaries=50"],
        r"above the last edge 50: .* with (--max-length 50)",
    ),
    "a ratio": (["check", *N, "--max-padding", "95"], r"(max-padding)='95': did you mean (95%)\?"),
    "a comma": (
        ["check", *N, "--max-padding", "99,5%"],
        r"(max-padding)='99,5%': did you mean (99.5%)",
    ),
    "points": (
        ["check", *N, "--max-padding", "90pp"],
        r"(max-padding)='90pp': .* did you mean (90%)\?",
    ),
    "a count": (["check", *N, "--max-batches", "5,000"], r"(max-batches)='5,000': .* or (5000)\?"),
    "no limit": (["check", *N], r"pass (--max-padding 5%) or"),
    "a strategy": (["compare", *N, "--strategy", "statik"], r"unknown (strategy) .* mean '(\w+)'"),
    "an order": (["compare", *N, "--order", "flie"], r"unknown (order) .* did you mean '(\w+)'"),
    "a distribute": (
        ["compare", *N, "--distribute", "sample"],
        r"unknown (distribute) .* did you mean '(\w+)'",
    ),
    "a remainder": (
        ["compare", *N, "--remainder", "drops"],
        r"unknown (remainder) .* did you mean '(\w+)'",
    ),
    "an overflow": (
        ["compare", *N, "--overflow", "splits"],
        r"unknown (overflow) .* did you mean '(\w+)'",
    ),
    "a framework": (
        ["compare", *N, "--strategy", "lotse"],
        r"unknown (strategy) .* mean '([\w-]+)'",
    ),
    "a sampler": (
        ["compare", *CLASSES, "--sampler", "upsamplin"],
        r"unknown (sampler) .* did you mean '(\w+)'",
    ),
    "no weights": (
        ["compare", *CLASSES, "--sampler", "count"],
        r"(sampler) 'count' needs count: write '(count=)N'",
    ),
    "a model": (["compare", *N, "--model", "hidden=3"], r"(model) .* write (hidden=768,layers=12)"),
    "a cost": (["buckets", *N, "--cost", "linea"], r"unknown (cost) .* did you mean '(\w+)'"),
    "buckets": (["buckets", *N, "--buckets", "50"], r"(buckets)=50: .* set at most (8)"),
    "two formats": (
        ["check", *N, "--max-padding", "99%", "--format", "json", "--format", "text"],
        r"as in --(format) (text=FILE)",
    ),
    "an export": (["compare", *N, "--export", "a.txt"], r"(export)=a.txt: must end in (.parquet)"),
    "other batches": (
        [
            "compare",
            *CLASSES,
            "--sampler",
            "per-batch:classes=2,samples=3",
            "--distribute",
            "chunks",
        ],
        r"warning: .* use (static) with (batch_size=6), (--distribute batches) and "
        r"--overflow truncate",
    ),
    "unequal steps": (
        [
            "compare",
            *N,
            "--world-size",
            "3",
            "--distribute",
            "samples",
            "--tokens-per-batch",
            "240",
        ],
        r"warning: .* use (--distribute batches) with (--remainder repeat)",
    ),
    "unequal steps that drop": (
        ["compare", *N, "--world-size", "4", "--distribute", "chunks", "--tokens-per-batch", "240"],
        r"warning: .* use (--distribute batches) with --remainder repeat or drop",
    ),
    "independent": (
        ["compare", *N, "--world-size", "3", "--distribute", "independent", "--strategy", "static"],
        r"warning: each rank has a different seed.*: use (--distribute samples), "
        r"which shares the seed",
    ),
    "a batch of one": (
        ["compare", *N, "--tokens-per-batch", "150"],
        r"warning: batch_size is 1.* for two, set (--tokens-per-batch 240)",
    ),
    "a batch of one, shorter": (
        ["compare", *N, "--tokens-per-batch", "150", "--pad-to-multiple-of", "8"],
        r"warning: batch_size is 1.* or (--max-length 72)",
    ),
    "a sorted corpus": (
        [
            *("compare", "sorted.npy", "--order", "file", "--strategy", "static"),
            *("--tokens-per-batch", "500"),
        ],
        r"warning: consecutive batches .*: (--order shuffled) \[order/alike-neighbours\]$",
    ),
}


def added(arguments: list[str], found: re.Match[str]) -> list[str]:
    """Arguments with what a message says, instead of the flags of that name."""
    words = [word for group in found.groups() for word in shlex.split(group)]
    if not words[0].startswith("--"):
        words = [f"--{words[0]}", *words[1:]]
    if words[0] == "--static":
        words = ["--strategy", f"static:{words[1]}", *words[2:]]
    words = {
        "--format": ["--format", "text=out.txt"],
        "--export": ["--strategy", "static", "--export", "a.parquet"],
    }.get(words[0], words)
    if words[:2] == ["--sampler", "count="]:
        words = ["--sampler", "count=5"]
    for name in [word for word in words if word.startswith("--")]:
        if name in arguments and name != "--format":
            at = arguments.index(name)
            arguments = arguments[:at] + arguments[at + 2 :]
        elif name == "--format":
            arguments = arguments[:-2]
    return [*arguments, *words]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_what_is_said_is_done(cli: Cli, files: Path, name: str):
    np.save(files / "sorted.npy", np.arange(1, 200))
    arguments, pattern = SAID[name]
    code, _, err = cli(*arguments)
    found = re.search(pattern, err, re.MULTILINE)
    assert found is not None, err
    warned = found[0].startswith("warning")
    assert code == 0 if warned else code in (2, 3)
    again = added(arguments, found)
    flags = [] if again[0] == "check" else ["--no-plots"]
    code, _, err = cli(*again, *flags)
    if name == "no limit":
        assert code == 1
    else:
        assert code == 0, (again, err)
    assert not warned or not re.search(pattern.partition(".*")[0], err), err


def examples() -> list[tuple[str, str]]:
    """The lines of every command's help that begin with `batchstat`."""
    commands = {
        "profile": profile.command,
        "merge": merge.command,
        "compare": compare.command,
        "balance": balance.command,
        "buckets": buckets.command,
        "recipe": recipe.command,
        "check": check.command,
        "init": init.command,
        "measure": measure.command,
    }
    return [
        (name, line.strip().rpartition(" > ")[0] or line.strip())
        for name, command in commands.items()
        for line in (command.__doc__ or "").splitlines()
        if line.strip().startswith("batchstat ")
        and not re.search("s3://|dask|/100|whole|chat.jsonl", line)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), examples())
def test_examples_of_the_help(cli: Cli, files: Path, name: str, line: str):
    """Run on a corpus of that name, with the profile, or the configuration, that they need."""
    for corpus in ("corpus.txt", "train.txt", "a.txt", "english.txt", "german.txt"):
        (files / corpus).write_text("".join("so " * n + "\n" for n in range(1, 30)))
    (files / "data" / "train.txt").write_text("some words\n" * 20)
    texts = "".join(f'{{"text": "{"so " * n}"}}\n' for n in range(1, 30))
    (files / "texts.jsonl").write_text(texts)
    (files / "sft.yaml").write_text(
        "datasets: [{path: json, data_files: texts.jsonl}]\npacking: false\n"
    )
    rows = [f"{'w ' * (n % 90)}good,{'positive' if n % 3 else 'negative'}" for n in range(90)]
    (files / "reviews.csv").write_text("review,label\n" + "\n".join(rows) + "\n")
    for folder in (files / "batchstat-results/run", files / "my-run"):
        folder.mkdir(parents=True)
        written.write(folder, [written.begin(), written.batch(0, 3, 5), written.step(0)])
    program, *arguments = shlex.split(re.sub("bert-base-cased|gpt2", "builtin", line))
    assert program == "batchstat"
    if name == "check" and arguments[-1] in ("github", "html=report.html"):
        limits = '[limits]\nmax-padding = "9%"\n'
        (files / "batchstat.toml").write_text(f'corpus = "plain.txt"\n{limits}')
    elif name not in ("init", "profile") and not any((files / a).exists() for a in arguments):
        read = ["--text-column", "review", "--label-column", "label"]
        assert cli("profile", "reviews.csv", *read, "--no-plots")[0] == 0
    options = ["--text-column", "body"] if "data/train.jsonl" in line else []
    if name in ("profile", "compare", "balance", "buckets"):
        options.append("--no-plots")
    code, _, err = cli(*arguments, *options)
    assert code in ((0, 1) if name == "check" else (0,)), err


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        [*N, "--tokens-per-batch", "500"],
        [*CLASSES, "--sampler", "upsampling", "--current", "static:batch_size=3"],
        [*CLASSES, "--sampler", "weights=weights.json,length=30", "--max-length", "60"],
        [*CLASSES, "--keep-labels", "a", "--drop-last", "--tokens-per-batch", "300"],
        ["a.csv", "--text-column", "body", "--label-column", "label", "--world-size", "2"],
        ["two.jsonl", "all.jsonl", "--text-column", "body", "--strip", "--min-chars", "3"],
        ["all.jsonl", "--text-column", "text", "--text-column", "review", "--seed", "3"],
        ["all.jsonl", "--messages-column", "messages", "--order", "file"],
        ["all.jsonl", "--tokens-column", "ids", "--pad-to-multiple-of", "8"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
@pytest.mark.usefixtures("files")
def test_what_init_says_to_run_next(cli: Cli, arguments: list[str]):
    code, _, err = cli("init", *arguments)
    assert code == 0, err
    assert re.search(r"^next: batchstat check;", err, re.MULTILINE)
    code, shown, err = cli("check")
    assert code == 0, (shown, err)


def test_shards_say_how_they_are_put_together(cli: Cli, files: Path):
    read = ["two.jsonl", "n.jsonl", "a.csv"]
    (files / "n.jsonl").write_text((files / "two.jsonl").read_text())
    read += ["--text-column", "body", "--no-plots"]
    for i in (1, 3):
        code, shown, _ = cli("profile", *read, "--shard", f"{i}/3", "-o", f"part {i}")
        assert code == 0
    [line] = re.findall(r"^next +batchstat (merge .*)$", shown, re.MULTILINE)
    folders = ["part 1", "part 3"]
    at = shlex.split(line).index("FOLDER-OF-EACH-SHARD")

    def merge_line() -> list[str]:
        words = shlex.split(line)
        return [*words[:at], *folders, *words[at + 2 :], "--no-plots"]

    code, _, err = cli(*merge_line())
    assert code == 3
    [number, of] = re.findall(r"count shard (\d) of (\d)", err)[0]
    assert cli("profile", *read, "--shard", f"{number}/{of}", "-o", "part 2")[0] == 0
    folders.append("part 2")
    (files / "batchstat.toml").write_text('corpus = "plain.txt"\ntokens-per-batch = 77\n')
    code, shown, err = cli(*merge_line())
    assert code == 0, err
    [line] = re.findall(r"^next +batchstat (compare .*)$", shown, re.MULTILINE)
    code, shown, err = cli(*shlex.split(line), "--no-plots")
    assert code == 0, err
    assert re.search(r"^● static .* 8 +full", shown, re.MULTILINE)
    assert "two.jsonl and 2 more" in shown


@pytest.mark.parametrize("configured", [False, True])
@pytest.mark.parametrize("folder", [(), ("-o", "some where")])
def test_what_profile_says_to_run_next(cli: Cli, files: Path, folder: tuple[str, ...], configured):
    """It is about the corpus that was profiled, whatever the configuration has."""
    if configured:
        (files / "batchstat.toml").write_text(
            'corpus = "plain.txt"\ntokens-per-batch = 77\nmax-length = 50\n'
        )
    code, shown, err = cli(*PROFILED, *folder)
    assert code == 0, err
    [line] = re.findall(r"^next +batchstat (.*)$", shown, re.MULTILINE)
    code, shown, err = cli(*shlex.split(line), "--no-plots")
    assert code == 0, err
    assert "n.jsonl" in shown
    assert re.search(r"^● static .* 8 +full", shown, re.MULTILINE)
    assert ("at most 77 tokens" in shown) == configured


def test_a_stale_profile_is_counted_again_as_it_says(cli: Cli, files: Path):
    assert cli(*PROFILED)[0] == 0
    with (files / "n.jsonl").open("a") as file:
        file.write(json.dumps({"n": 5, "label": "a"}) + "\n")
    code, _, err = cli("check", "--max-padding", "99%")
    assert code == 3
    assert "name the corpus, or rerun batchstat profile" in err
    assert cli("check", *CLASSES, "--max-padding", "99%")[0] == 0
    assert cli(*PROFILED)[0] == 0
    assert cli("check", "--max-padding", "99%")[0] == 0


def test_two_columns_in_one_flag_are_pointed_out(cli: Cli, files: Path):
    (files / "pairs.csv").write_text("question,answer\na b,c\n")
    code, _, err = cli("profile", "pairs.csv", "--text-column", "question,answer")
    assert code == 3
    assert "pass --text-column question --text-column answer" in err


def test_columns_without_a_header_may_be_numbers(files: Path):
    (files / "a.tsv").write_text("spam\tsome words\nham\tmore\n")
    profile = batchstat.profile(files / "a.tsv", header=False, text_column=1, label_column=0)
    assert [each.label for each in profile.classes] == ["spam", "ham"]


def test_one_bucket_where_all_lengths_are_equal(cli: Cli, files: Path):
    (files / "equal.csv").write_text("n\n" + "7\n" * 20)
    code, shown, err = cli("buckets", "equal.csv", "--length-column", "n", "--no-plots")
    assert code == 0, err
    assert "1 bucket" in shown


def test_init_writes_a_length_only_where_one_truncates(cli: Cli, files: Path):
    """Today's longest sample as a limit lets no remedy lengthen what is truncated tomorrow."""
    (files / "long.csv").write_text("n\n" + "7\n" * 20 + "90\n")
    assert cli("init", "long.csv", "--length-column", "n")[0] == 0
    assert "max-length" not in (files / "batchstat.toml").read_text()
    (files / "batchstat.toml").unlink()
    assert cli("init", "long.csv", "--length-column", "n", "--max-length", "50")[0] == 0
    assert "max-length = 50\n" in (files / "batchstat.toml").read_text()
    (files / "batchstat.toml").unlink()
    (files / "long.txt").write_text("word " * 100 + "\n" + "word " * 520 + "\n")
    assert cli("init", "long.txt")[0] == 0
    assert "max-length = 512\n" in (files / "batchstat.toml").read_text()  # the tokenizer's


def test_init_asks_how_long_samples_are_where_many_are_truncated(cli: Cli, files: Path):
    (files / "long.txt").write_text("word " * 5000 + "\n")
    code, _, err = cli("init", "long.txt")
    assert code == 3
    assert "89.8% of the tokens are truncated to 512 tokens per sample" in err
    assert err.endswith("pass the length that you train with, --max-length\n")
    assert not (files / "batchstat.toml").exists()
    assert cli("init", "long.txt", "--max-length", "512")[0] == 0


def test_a_longer_corpus_has_a_limit_that_it_keeps(cli: Cli, files: Path):
    """No other batches truncate less: a limit on truncated tokens names the one that is kept."""
    (files / "a.csv").write_text("n\n" + "7\n" * 200 + "90\n" * 20)
    assert cli("init", "a.csv", "--length-column", "n", "--max-length", "90")[0] == 0
    (files / "a.csv").write_text("n\n" + "7\n" * 200 + "90\n" * 20 + "400\n" * 20)
    code, shown, _ = cli("check")
    assert code == 1
    remedies = [line for line in shown.splitlines() if line.startswith("remedy")]
    [remedy] = [line for line in remedies if "nothing that compare finds keeps it: if" in line]
    truncated = 20 * 310 / (7 * 200 + 90 * 20 + 400 * 20)
    kept_limit = remedy.removesuffix("%").split()[-1]
    assert 100 * truncated <= float(kept_limit) < 100 * truncated + 0.01


def test_a_shard_that_was_not_downloaded_is_noticed(cli: Cli, files: Path):
    (files / "a.txt").write_text("some words\n" * 500)
    assert cli("init", "a.txt")[0] == 0
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    (files / "a.txt").write_text(pointer)
    code, _, err = cli("check")
    assert code == 3
    assert "a.txt is a Git LFS pointer, not the data: run git lfs pull" in err


def test_init_and_check_say_what_they_limit_and_what_would_help(cli: Cli, files: Path):
    (files / "a.csv").write_text("n\n" + "\n".join(str(7 + i * i % 90) for i in range(500)) + "\n")
    flags = ["a.csv", "--length-column", "n"]
    _, _, err = cli("init", *flags)
    assert "the limits are of static, " in err
    assert "as nothing names what you train with: add --current, a strategy" in err
    assert 'current = "static"\n' in (files / "batchstat.toml").read_text()
    assert "nothing names" not in cli("check")[2]
    (files / "batchstat.toml").unlink()
    _, _, err = cli("init", *flags, "--current", "hf-trainer")
    assert re.search(r"the limits are of hf-trainer, [\d.]+% padding\n", err)
    argument = r'TrainingArguments\(train_sampling_strategy="group_by_length"\)'
    assert re.search(argument + r".* would be 1\.\d\dx faster: see batchstat compare\n", err)
    assert "batch-size" not in (files / "batchstat.toml").read_text()
    code, _, err = cli("check", *flags, "--no-config", "--max-padding", "99%")
    assert code == 0
    assert "the limits are held against static, as nothing names what you train with" in err
