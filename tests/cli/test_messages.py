"""What errors and warnings tell the user to do helps, done as it is written."""

import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
import written
from conftest import Cli, write_jsonl

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

LENGTHS = [3, 9, 27, 50, 50, 50, 80, 100, 120, 7] * 9


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Corpora of every kind, and some that are none."""
    columns = {
        "text": lambda n: "word " * n,
        "review": lambda n: "so " * n,
        "body": lambda n: "no " * n,
        "n": lambda n: n,
        "label": lambda n: "ab"[n % 2],
        "messages": lambda _: [{"role": "user", "content": "so"}],
        "conversations": lambda _: [{"from": "human", "value": "so"}],
        "ids": lambda n: [1] * n,
    }
    for name, kept in {
        "all.jsonl": columns,
        "n.jsonl": ["n", "label"],
        "two.jsonl": ["body", "label"],
        "lines.json": ["body", "label"],
        "data/train.jsonl": ["body", "label"],
        "sharegpt.jsonl": ["conversations"],
        "openai.jsonl": ["messages"],
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_jsonl(tmp_path / name, [{key: columns[key](n) for key in kept} for n in LENGTHS])
    (tmp_path / "plain.txt").write_text("some words\n" * 20)
    (tmp_path / "a.csv").write_text("body,label\nsome words,x\nmore,y\n")
    (tmp_path / "quote.csv").write_text('body,label\nthe 5" disk,x\n"more,y\n')
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 5}\n')
    (tmp_path / "weights.json").write_text('{"a": 1, "b": 3}')
    np.save(tmp_path / "n.npy", LENGTHS)
    np.save(tmp_path / "sorted.npy", np.arange(1, 200))
    return tmp_path


# What is typed | what of it is wrong | what is said, as a pattern | what is typed instead, RIGHT.
SAID = r"""
profile two.jsonl | --text-column bodi | pass RIGHT | --text-column body
profile sharegpt.jsonl | | pass RIGHT$ | --messages-column conversations
profile openai.jsonl | | pass RIGHT$ | --messages-column messages
profile lines.json --text-column body | | pass RIGHT if it has one per line | --input-format jsonl
profile quote.csv --text-column body | | or pass RIGHT if quotes are part of the text | --no-quote
profile bad.jsonl | | : pass RIGHT to skip such records | --on-error skip
profile a.csv --text-column body | --tokenizer ./no | built-in one: RIGHT | --tokenizer builtin
compare n.npy --strategy boundaries:boundaries=50 | | above the last edge .*RIGHT | --max-length 50
compare n.npy --strategy lhotse:boundaries=50 | | above the last edge .*RIGHT | --max-length 50
check n.npy | --max-padding 95 | ='95': did you mean 95%\? | --max-padding 95%
check n.npy | --max-padding 99,5% | ='99,5%': did you mean 99.5% | --max-padding 99.5%
check n.npy | --max-padding 90pp | ='90pp': .* did you mean 90%\? | --max-padding 90%
check n.npy | --max-batches 5,000 | ='5,000': .* or 5000\? | --max-batches 5000
buckets n.npy | --buckets 50 | buckets=50: .* set at most 8 | --buckets 8
compare n.npy | --distribute sample | unknown distribute .* mean 'samples' | --distribute samples
compare CLASSES | --sampler upsamplin | mean 'upsampling' | --sampler upsampling
compare CLASSES | --sampler count | needs count: write 'count=N' | --sampler count=5
compare n.npy | --model hidden=3 | write hidden=768,layers=12 | --model hidden=768,layers=12
check n.npy --max-p99 200 | --format json --format text | --format text=F | --format text=a.txt
compare sorted.npy --batch-size 5 | --order file | ^warning: .*: RIGHT \[order/ | --order shuffled
compare n.npy | --tokens-per-batch 150 | ^warning: .* two, set RIGHT | --tokens-per-batch 240
compare n.npy SMALL | | ^warning: batch_size is 1.* or RIGHT | --max-length 72
compare n.npy --world-size 3 | --distribute independent | use RIGHT, which | --distribute samples
compare n.npy RANKS 3 | --distribute samples | RIGHT | --distribute batches with --remainder repeat
compare n.npy RANKS 4 | --distribute chunks | use RIGHT with | --distribute batches
compare CLASSES DRAWN | --distribute chunks | static with batch_size=6, --dist.* batches | STATIC
"""
CLASSES = "n.jsonl --length-column n --label-column label"
WORDS = {
    "CLASSES": CLASSES,
    "DRAWN": "--sampler per-batch:classes=2,samples=3",
    "RANKS": "--tokens-per-batch 240 --world-size",
    "STATIC": "--strategy static:batch_size=6 --distribute batches",
    "SMALL": "--tokens-per-batch 150 --pad-to-multiple-of 8",
}


@pytest.mark.slow
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("row", SAID.strip().splitlines())
def test_what_is_said_is_done(cli: Cli, row: str):
    for name, words in WORDS.items():
        row = row.replace(name, words)
    typed, wrong, said, right = map(str.strip, row.split("|"))
    plots = "" if typed.startswith("check") else "--no-plots"
    code, _, err = cli(*shlex.split(f"{typed} {wrong} {plots}"))
    pattern = said.replace("RIGHT", re.escape(right))
    [line] = [each for each in err.splitlines() if re.search(pattern, each)]
    assert code == 0 if line.startswith("warning: ") else code in (2, 3)
    code, _, err = cli(*shlex.split(f"{typed} {right.replace(' with ', ' ')} {plots}"))
    assert code == 0, err
    assert not re.search(pattern, err)


CHAT = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
SHAREGPT = [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]
PARAGRAPHS = [{"context": "c", "qas": [{"id": 1, "question": "q"}]}] * 2
SQUAD = [{"paragraphs": PARAGRAPHS}] * 3
LINES = json.dumps({"data": SQUAD}, indent=1)
TURNS = {"id": "1", "turns": [{"text": "a"}, {"text": "b"}]}
BY_ID = {f"s {i}": [{"word": "a"}, {"word": "b"}] for i in range(30)}
ALPACA = [{"instruction": "a", "input": "b", "output": "c"}]
TABS = "ham\tsee you, later\nspam\twin now\n" * 3
LONG = "A text of a review; " * 40
PARTS = "--records data[].paragraphs"
TSV = "--input-format tsv --no-header --text-column 1"

# A file as people have it, after those in public repositories; what is said of it | the flags that
# then read it, where these are not what is said; and how many samples it has.
LAYOUTS: list[tuple[str, Any, str, int]] = [
    ("a.jsonl", {"chosen_messages": CHAT, "n": 1}, "--messages-column chosen_messages", 1),
    ("a.json", [{"dialog": SHAREGPT, "id": "1"}], "--messages-column dialog", 1),
    ("a.json", [{"conversations": SHAREGPT, "chosen": {}}], "--messages-column conversations", 1),
    ("a.json", ALPACA, "--input-format alpaca --messages-column messages", 1),
    ("a.json", [TURNS], "or --records '[].turns' | --records [].turns", 2),
    ("a.jsonl", TURNS, "or --records 'turns' | --records turns", 2),
    ("a.json", [{"translation": {"en": "a", "de": "b"}}], "--text-column translation.en", 1),
    # Objects, whose keys are named
    ("a.json", {"data": [{"text": "one two"}]}, "--records data", 1),
    ("a.json", {"meta": {}, "result": {"rows": [{"text": "x"}]}}, "--records result.rows", 1),
    ("a.json", {"id1": {"text": "x"}, "id2": {"text": "y"}}, "--records '[]' | --records []", 2),
    ("a.json", {"texts": ["x", "y"]}, "--records texts", 2),
    ("a.json", BY_ID, "or '[][]' if each | --records [][] --text-column word", 60),
    ("a.json", {"data": SQUAD}, f"--records data | {PARTS}", 6),
    ("a.json", SQUAD, "or --records '[].paragraphs' | --records [].paragraphs", 6),
    ("a.jsonl", LINES, f"pass --input-format json | --input-format json {PARTS}", 6),
    # Tables
    (
        "a.csv",
        '"row"\t"text"\n"1"\t"a, b"\n',
        "--separator tab | --separator tab --text-column text",
        1,
    ),
    ("a.csv", f"{LONG},1\n{LONG},0\n", "--no-header | --no-header --text-column 0", 2),
    ("SMSSpamCollection", TABS, f"has 2 fields between tabs on each line | {TSV}", 6),
    ("SMSSpamCollection", TABS, "has 2 fields between tabs | --input-format txt", 6),
    ("a.tsv", 'id\ttext\n1\t"a\n\nb"\n', "is 1, not 2: pass --quote | --quote", 1),
    # A lone column of labels or ids is no text
    *(
        ("a.jsonl", {name: "x", "n": 1}, f"cannot tell the text column | --text-column {name}", 1)
        for name in ("label", "status_id", "Category", "lang", "role")
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "said", "samples"), LAYOUTS, ids=[row[2] for row in LAYOUTS]
)
def test_advice_leads_to_the_samples(
    cli: Cli, tmp_path: Path, name: str, content: Any, said: str, samples: int
):
    message, _, flags = said.partition(" | ")
    for indent in (None, 1) if name == "a.json" else (None,):
        text = content if isinstance(content, str) else json.dumps(content, indent=indent)
        (tmp_path / name).write_text(text)
        code, _, err = cli("profile", name)
        assert code == 3
        assert message in err
        assert len(err) < 400
    code, shown, err = cli("profile", name, *shlex.split(flags or said), "--no-plots", "--json")
    assert code == 0, err
    assert json.loads(shown)["corpus"]["samples"] == samples


def examples() -> list[tuple[str, str]]:
    """The lines of every command's help that begin with `batchstat`."""
    names = ["profile", "compare", "balance", "buckets", "recipe", "check", "init", "measure"]
    helps = {
        name: import_module(f"batchstat.cli.commands.{name}").command.__doc__ for name in names
    }
    return [
        (name, line.strip().rpartition(" > ")[0] or line.strip())
        for name in names
        for line in helps[name].splitlines()
        if line.strip().startswith("batchstat ") and not re.search("s3://|dask|chat.jsonl", line)
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
    "typed",
    [
        "n.npy --tokens-per-batch 500",
        f"{CLASSES} --sampler upsampling --current static:batch_size=3",
        f"{CLASSES} --sampler weights=weights.json,length=30 --max-length 60",
        f"{CLASSES} --keep-labels a --drop-last --tokens-per-batch 300",
        "a.csv --text-column body --label-column label --world-size 2",
        "two.jsonl all.jsonl --text-column body --strip --min-chars 3",
        "all.jsonl --text-column text --text-column review --seed 3",
        "all.jsonl --messages-column messages --order file",
        "all.jsonl --tokens-column ids --pad-to-multiple-of 8",
    ],
)
@pytest.mark.usefixtures("files")
def test_what_init_says_to_run_next(cli: Cli, typed: str):
    code, _, err = cli("init", *shlex.split(typed))
    assert code == 0, err
    assert re.search(r"^next: batchstat check;", err, re.MULTILINE)
    code, shown, err = cli("check")
    assert code == 0, (shown, err)


@pytest.mark.parametrize("configured", [False, True])
@pytest.mark.parametrize("folder", [(), ("-o", "some where")])
def test_what_profile_says_to_run_next(cli: Cli, files: Path, folder: tuple[str, ...], configured):
    """It is about the corpus that was profiled, whatever the configuration has."""
    if configured:
        (files / "batchstat.toml").write_text(
            'corpus = "plain.txt"\ntokens-per-batch = 77\nmax-length = 50\n'
        )
    code, shown, err = cli("profile", *CLASSES.split(), "--no-plots", *folder)
    assert code == 0, err
    [line] = re.findall(r"^next +batchstat (.*)$", shown, re.MULTILINE)
    code, shown, err = cli(*shlex.split(line), "--no-plots")
    assert code == 0, err
    assert "n.jsonl" in shown
    assert re.search(r"^● static .* 8 +full", shown, re.MULTILINE)
    assert ("at most 77 tokens" in shown) == configured


def test_a_stale_profile_is_counted_again_as_it_says(cli: Cli, files: Path):
    assert cli("profile", *CLASSES.split(), "--no-plots")[0] == 0
    with (files / "n.jsonl").open("a") as file:
        file.write(json.dumps({"n": 5, "label": "a"}) + "\n")
    code, _, err = cli("check", "--max-padding", "99%")
    assert code == 3
    assert "name the corpus, or rerun batchstat profile" in err
    assert cli("check", *CLASSES.split(), "--max-padding", "99%")[0] == 0
    assert cli("profile", *CLASSES.split(), "--no-plots")[0] == 0
    assert cli("check", "--max-padding", "99%")[0] == 0


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
