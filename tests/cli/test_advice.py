"""What a screen tells its reader to run gives what stands beside it, run as it is printed."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from batchstat.render.text import percent
from conftest import Cli
from small_tokenizers import half_slow


def as_printed(cli: Cli, line: str, *more: str) -> tuple[int, str, str]:
    """A line that begins with `batchstat`, as a shell reads it."""
    program, *arguments = shlex.split(line)
    assert program == "batchstat", line
    return cli(*arguments, *more)


def write_corpus(folder: Path, n: int = 400, seed: int = 0) -> Path:
    """A text, a label and a length for each of n samples, most of them short."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(3, 0.8, n).astype(int).clip(1, 200)
    labels = rng.choice(["a b", "c,d", "é"], n, p=[0.8, 0.15, 0.05])
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for length, label in zip(lengths.tolist(), labels.tolist(), strict=True):
            record = {"text": "word " * length, "n": length, "label": label}
            file.write(json.dumps(record) + "\n")
    return folder / "corpus.jsonl"


CORPORA = {
    "TEXT": "corpus.jsonl --text-column text",
    "LABELLED": "corpus.jsonl --text-column text --label-column label",
    "LENGTHS": "corpus.jsonl --length-column n",
}


def table(rows: str) -> dict[str, list[str]]:
    """What is typed in each row, by its name; what is indented belongs to the row above."""
    for name, words in CORPORA.items():
        rows = rows.replace(name, words)
    found = (row.split(":", 1) for row in re.sub(r"\n +", " ", rows).strip().splitlines())
    return {name: shlex.split(typed) for name, typed in found}


# buckets


BUCKETS = table("""
defaults: TEXT
few tokens: LENGTHS --tokens-per-batch 1000 --buckets 3
one bucket: LENGTHS --tokens-per-batch 1000 --buckets 1
many: LENGTHS --tokens-per-batch 700 --buckets 16
multiple: LENGTHS --tokens-per-batch 2000 --pad-to-multiple-of 8
cut: LENGTHS --max-length 60 --tokens-per-batch 600 --buckets 4
dropped: LENGTHS --max-length 60 --overflow drop --tokens-per-batch 900
split: TEXT --max-length 50 --overflow split --tokens-per-batch 900
quadratic: LENGTHS --cost quadratic --tokens-per-batch 1000 --buckets 5
a model: LENGTHS --model hidden=8,layers=1 --tokens-per-batch 1000
least: LENGTHS --min-bucket-samples 40 --tokens-per-batch 800
ranks: LENGTHS --world-size 3 --tokens-per-batch 500
ranks that drop: LENGTHS --world-size 4 --remainder drop --distribute samples --tokens-per-batch 400
spread: LENGTHS --world-size 3 --remainder spread --tokens-per-batch 500
file order: LENGTHS --order file --tokens-per-batch 500
a seed: LENGTHS --seed 7 --epoch 2 --tokens-per-batch 500
drop last: LENGTHS --drop-last --tokens-per-batch 500
batch size: LENGTHS --batch-size 4 --tokens-per-batch 500
some labels: LABELLED --keep-labels '["c,d", "é"]' --tokens-per-batch 300
balanced: LABELLED --sampler upsampling --tokens-per-batch 500
weights: LABELLED --sampler 'weights={"a b": 1, "c,d": 2},length=90' --tokens-per-batch 500
above one batch: LENGTHS --tokens-per-batch 40
another folder: LENGTHS -o 'some where' --tokens-per-batch 500
""")


def pasted(shown: str) -> Iterator[tuple[str, str]]:
    """The lines to paste, each with the line below it."""
    lines = shown.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if found := re.fullmatch(r"(?:use|or|next) +(batchstat .*)", line):
            yield found[1], below.strip()


@pytest.mark.parametrize("name", half_slow(BUCKETS))
def test_lines_of_buckets(cli: Cli, tmp_path: Path, name: str):
    """Shapes, padding and what is left out: as compare has them in its table."""
    write_corpus(tmp_path)
    if name in ("defaults", "some labels"):
        # What the file says of another corpus must not come into it.
        (tmp_path / "other.txt").write_text("some words\n" * 50)
        (tmp_path / "batchstat.toml").write_text(
            'corpus = "other.txt"\nseed = 5\nread-ahead = 7\ncurrent = "static"\n'
        )
    code, shown, err = cli("buckets", *BUCKETS[name], "--no-plots")
    assert code == 0, err
    lines = list(pasted(shown))
    assert lines
    for line, beside in lines:
        found = re.fullmatch(
            r"([\d,]+) shapes?, (\S+) padding, (?:no samples|([\d,]+) samples?) dropped"
            r"(?:, (\S+) of the tokens)?",
            beside,
        )
        assert found is not None, beside
        code, _, err = as_printed(cli, line, "--no-plots")
        assert code == 0, err
        [file] = tmp_path.glob("*/compare.json")
        [numbers] = json.loads(file.read_text(encoding="utf-8"))["strategies"]
        shapes, padding = numbers["distinct_shapes"], numbers["padding_ratio"]
        assert (f"{shapes:,}", f"{100 * padding:.2f}%") == (found[1], found[2])
        assert numbers["dropped_samples"] == int((found[3] or "0").replace(",", ""))
        if "leftovers=drop" in line and "spread" not in name:
            assert numbers["distinct_shapes"] <= len(numbers["params"]["boundaries"])


def test_as_many_shapes_as_buckets_where_little_is_lost(cli: Cli, tmp_path: Path):
    write_corpus(tmp_path, n=1500)
    flags = ["--length-column", "n", "--tokens-per-batch", "1000", "--buckets", "6"]
    code, shown, _ = cli("buckets", "corpus.jsonl", *flags, "--no-plots")
    assert code == 0
    (use, beside), (other, _) = pasted(shown)
    assert "leftovers=drop" in use
    assert beside.startswith("6 shapes, ")
    assert "leftovers" not in other


# balance


SAMPLERS = table("""
usual:
two: --sampler none --sampler upsampling
ranks: --world-size 2 --distribute samples --tokens-per-batch 900
static: --strategy static:batch_size=4 --seed 3
labels: --keep-labels '["a b","c,d"]' --max-length 30 --overflow drop
weights: --sampler 'weights={"a b": 1, "c,d": 1, "é": 1},length=200'
  --sampler per-batch:classes=2,samples=3 --strategy static
""")


@pytest.mark.parametrize("name", SAMPLERS)
def test_lines_of_balance(cli: Cli, tmp_path: Path, name: str):
    """Batches, padding and compute, as compare has them with the sampler and without."""
    write_corpus(tmp_path)
    read = ["corpus.jsonl", "--length-column", "n", "--label-column", "label"]
    code, shown, err = cli("balance", *read, *SAMPLERS[name], "--no-plots", "--epochs", "3")
    assert code == 0, err
    results = tmp_path / "batchstat-results"
    report = json.loads((results / "balance.json").read_text(encoding="utf-8"))
    [(line, _)] = pasted(shown)
    chosen = next(
        row
        for row in report["samplers"]
        if shlex.split(line)[shlex.split(line).index("--sampler") + 1] == report["recommended"]
        and row["name"] == re.split("[:=]", report["recommended"])[0]
    )

    def compared(line: str) -> dict[str, object]:
        code, _, err = as_printed(cli, line, "--no-plots")
        assert code == 0, err
        found = json.loads((results / "compare.json").read_text(encoding="utf-8"))
        [row] = found["strategies"]
        return row

    row = compared(line)
    for key in ("batches", "padding_ratio", "total_tokens", "coverage"):
        assert row[key] == chosen["strategy"][key], key
    words = shlex.split(line)
    words[words.index("--sampler") + 1] = "none"
    plain = compared(shlex.join(words))
    compute = row["total_tokens"] / plain["total_tokens"]
    assert chosen["relative_compute"] == pytest.approx(compute)
    result = " ".join(shown.split("\nresult ")[1].split("\nuse ")[0].split())
    assert f"{compute:,.2f}x the compute of none" in result
    assert ("which is expensive" in result) == (compute > 1.5)
    seen = percent(chosen["coverage_after"])
    assert f"and {seen} of the corpus is seen in 3 epochs" in result


def test_one_sampler_is_no_choice(cli: Cli, tmp_path: Path):
    write_corpus(tmp_path)
    read = ["corpus.jsonl", "--length-column", "n", "--label-column", "label"]
    code, shown, _ = cli("balance", *read, "--sampler", "downsampling", "--no-plots")
    assert code == 0
    assert not re.search(r"^use", shown, re.MULTILINE)


# check


CHECKS = table("""
padding: TEXT --read-ahead 20 --tokens-per-batch 1000 --max-padding 12%
padding, static: LENGTHS --current static --tokens-per-batch 1000 --max-padding 15%
padding, fixed: LENGTHS --current fixed:batch_size=3 --max-padding 25%
padding, boundaries: LENGTHS --current boundaries:boundaries=60,200,read_ahead=50
  --tokens-per-batch 1000 --max-padding 40%
fill: LENGTHS --current static --min-fill 75%
fill at a small batch size: LENGTHS --current bucketed --batch-size 4 --min-fill 85%
batches: LENGTHS --current static:batch_size=8 --max-batches 30
truncated text: TEXT --max-length 40 --max-truncated 1%
dropped: LENGTHS --max-length 40 --overflow drop --max-dropped 0%
the last: LENGTHS --drop-last --tokens-per-batch 1000 --max-dropped 0%
the last of its own: LENGTHS --current static:batch_size=7,drop_last=true --max-dropped 0%
leftovers: LENGTHS --current boundaries:boundaries=20,90,200,leftovers=drop --tokens-per-batch 1000
  --max-dropped 0%
coverage of ranks: LENGTHS --world-size 9 --remainder drop --distribute samples --min-coverage 1.0
coverage of classes: LABELLED --sampler downsampling --min-coverage 60%
duplicated: LENGTHS --world-size 8 --tokens-per-batch 900 --max-duplicated 0%
idle ranks: LENGTHS --world-size 4 --current static --tokens-per-batch 900 --max-rank-idle 10%
unequal steps: LENGTHS --world-size 4 --remainder uneven --tokens-per-batch 900 --equal-steps
unequal steps of samples: LENGTHS --world-size 4 --distribute samples --tokens-per-batch 400
  --equal-steps
over budget: LENGTHS --tokens-per-batch 100 --max-over-budget 0
over budget by its size: LENGTHS --current static --batch-size 16 --tokens-per-batch 500
  --max-over-budget 0
over budget by its own size: LENGTHS --current bucketed:batch_size=16 --tokens-per-batch 150
  --pad-to-multiple-of 8 --max-over-budget 0
p99: LENGTHS --max-p99 80
classes: LABELLED --max-class-ratio 3
impossible: LENGTHS --max-padding 0%
""")


def trained(flags: list[str]) -> list[str]:
    """Flags that name a sampler of batchstat's, where they name nothing."""
    return flags if "--current" in flags else [*flags, "--current", "token-budget"]


def exceeded(shown: str) -> list[tuple[str, str]]:
    """Limits that are exceeded, each with its remedy."""
    return re.findall(r"^FAIL +([\w. -]+): .*\nset in .*\nremedy +(.*)$", shown, re.MULTILINE)


def promised(remedy: str) -> tuple[str, str]:
    """What the check is told of a change, and what it gives."""
    found = re.fullmatch(r"(.*?) gives ([\d.,%]+)(?:, with .*?)?; then (?:pass|set) (.*?)", remedy)
    assert found is not None, remedy
    return found[3], found[2].rstrip(",")


def with_flags(arguments: list[str], change: str) -> list[str]:
    """Arguments with those of a change instead of theirs."""
    words = shlex.split(change)
    names = {word.replace("--no-", "--") for word in words if word.startswith("--")}
    kept: list[str] = []
    skip = False
    for i, word in enumerate(arguments):
        if word.startswith("--"):
            skip = word in names
        if not (skip and (word in names or arguments[i - 1] in names)):
            kept.append(word)
    return [*kept, *words]


def value_of(shown: str, limit: str) -> tuple[str, str]:
    """The value of a limit in the table, and what becomes of it."""
    found = re.search(rf"^{re.escape(limit)} +(\S+) .*?(\w+)$", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1], found[2]


def same(one: str, other: str) -> bool:
    """Whether two numbers are the same, to the digits that are shown of both."""
    first, second = (float(text.rstrip("%").replace(",", "")) for text in (one, other))
    return first == pytest.approx(second, abs=0.0051)


HELPED = (
    *("padding, static", "padding, fixed", "padding, boundaries", "fill", "batches", "the last"),
    *("the last of its own", "leftovers", "unequal steps", "unequal steps of samples"),
    "over budget by its size",
)
"""The checks that a change which a comparison finds keeps."""


@pytest.mark.parametrize("name", half_slow(CHECKS))
def test_remedies_as_flags(cli: Cli, tmp_path: Path, name: str):
    write_corpus(tmp_path)
    arguments = [*trained(CHECKS[name]), "--format", "text", "--format", "json=check.json"]
    code, shown, err = cli("check", *arguments)
    assert code == 1, (shown, err)
    before = peak_of(tmp_path)
    [(limit, remedy)] = exceeded(shown)
    _, is_only_named, number = remedy.partition("was meant to change, set the limit to ")
    if is_only_named:
        assert name not in HELPED, remedy
        code, after, err = cli("check", *with_flags(arguments, f"--{limit} {number}"))
        assert code == 0, (after, err)
        return
    assert name in HELPED, remedy
    # The training changes, and never its description alone.
    assert re.match("batchstat (recipe|compare)|TrainingA", remedy)
    change, value = promised(remedy)
    assert not re.search("packed|padding-free", change)
    code, after, err = cli("check", *with_flags(arguments, change))
    assert code in (0, 1), err
    found, status = value_of(after, limit)
    assert same(found, value), (remedy, after)
    assert status == "pass", (remedy, after)
    assert_no_higher(before, peak_of(tmp_path))


def peak_of(folder: Path) -> tuple[int, int, int]:
    """The budget, the largest batch, and the number of batches over their budget."""
    report = json.loads((folder / "check.json").read_text(encoding="utf-8"))["checks"][0]["report"]
    row = report["strategy"]
    budget = report["basis"]["tokens_per_batch"]
    return budget, row["max_batch_tokens"], row["over_budget_batches"]


def assert_no_higher(before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    assert after[1] <= max(before[:2])
    assert after[2] <= before[2]


SIZES = "tokens-per-batch = 1000"
# What is configured | its limit, which is exceeded | where: all kinds of remedies and of tables.
CONFIGURED = """
current = "static"; SIZES | max-padding = "15%" | plain
current = "boundaries:boundaries=60,200,read_ahead=50"; SIZES | max-padding = "40%" | project
drop-last = true; SIZES; current = "token-budget" | max-dropped = "0%" | named
world-size = 4; SIZES; remainder = "uneven"; current = "token-budget" | equal-steps = true | plain
current = "static"; batch-size = 16; tokens-per-batch = 500 | max-over-budget = 0 | project
current = "boundaries:boundaries=20,90,200,leftovers=drop"; SIZES | max-dropped = "0%" | named
"""


@pytest.mark.slow
@pytest.mark.parametrize("row", CONFIGURED.strip().splitlines())
def test_remedies_as_lines_of_a_configuration(cli: Cli, tmp_path: Path, row: str):
    """Each stands in the table that it names, instead of what was there."""
    write_corpus(tmp_path)
    said, held, where = row.replace("SIZES", "tokens-per-batch = 1000").split(" | ")
    head = {"plain": "", "project": "tool.batchstat", "named": 'checks."one two"'}[where]
    path = tmp_path / ("pyproject.toml" if where == "project" else "batchstat.toml")
    settings = dict(each.split(" = ", 1) for each in said.split("; "))

    def checked(settings: dict[str, str]) -> tuple[int, str]:
        lines = [f"{key} = {value}" for key, value in settings.items()]
        lines = ['corpus = "corpus.jsonl"', 'length-column = "n"', *lines]
        limits = f"[{head}.limits]" if head else "[limits]"
        lines = [f"[{head}]" if head else "", *lines, limits, held]
        path.write_text("\n".join(lines), encoding="utf-8")
        code, shown, err = cli("check")
        assert code in (0, 1), err
        return code, shown

    code, shown = checked(settings)
    assert code == 1, shown
    [(limit, remedy)] = exceeded(shown)
    change, value = promised(remedy)
    lines, _, place = change.rpartition(" in ")
    table = f" [{head}]".replace('"', "") if head else ""
    assert place == f"{path.name}{table}"
    found = dict(each.split(" = ", 1) for each in re.split(r" and (?=[a-z-]+ = )", lines))
    _, after = checked(settings | found)
    assert same(value_of(after, limit)[0], value)
    assert value_of(after, limit)[1] == "pass"


def test_a_flag_goes_before_the_configuration(cli: Cli, tmp_path: Path):
    """So that what is set by a flag is changed there, and nothing else is."""
    write_corpus(tmp_path)
    (tmp_path / "batchstat.toml").write_text(
        'corpus = "corpus.jsonl"\nlength-column = "n"\ntokens-per-batch = 1000\n'
        'max-length = 40\n[limits]\nmax-padding = "15%"\n'
    )
    by_flag = cli("check", "--current", "static:batch_size=9")[1]
    [(_, remedy)] = exceeded(by_flag)
    change, value = promised(remedy)
    assert change.startswith("--current ")
    assert same(value_of(cli("check", *change.split())[1], "max-padding")[0], value)


def test_a_remedy_keeps_what_a_base_limits(cli: Cli, tmp_path: Path):
    write_corpus(tmp_path)
    read = ["corpus.jsonl", "--length-column", "n", "--tokens-per-batch", "1000"]
    read += ["--current", "static"]
    assert cli("check", *read, "--max-padding", "100%", "--format", "json=base.json")[0] == 0
    write_corpus(tmp_path, seed=3, n=150)
    held = ["--base", "base.json"]
    code, shown, _ = cli("check", *read, *held)
    assert code == 1, shown
    [(_, remedy)] = exceeded(shown)
    change, value = promised(remedy)
    code, after, _ = cli("check", *with_flags(read, change), *held)
    assert code == 0
    assert same(value_of(after, "max-increase")[0], value)


def test_a_remedy_that_breaks_no_other_limit_goes_first(cli: Cli, tmp_path: Path):
    write_corpus(tmp_path)
    flags = ["--length-column", "n", "--current", "static", "--tokens-per-batch", "1000"]
    padding = ["--max-padding", "20%"]
    shown = cli("check", "corpus.jsonl", *flags, *padding)[1]
    assert promised(exceeded(shown)[0][1])[0] == "--current hf-group-by-length:batch_size=5"
    cli("compare", "corpus.jsonl", *flags, "--no-plots")
    report = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    fill = ["--min-fill", repr(report["strategies"][0]["fill"])]
    shown = cli("check", "corpus.jsonl", *flags, *padding, *fill)[1]
    assert promised(exceeded(shown)[0][1])[0] == "--current token-budget"
    # Where each that keeps a limit breaks another, it is named with that.
    shown = cli("check", "corpus.jsonl", *flags, "--max-padding", "5%", *fill)[1]
    assert "min-fill exceeded; then" in exceeded(shown)[0][1]
