"""Each plan of the what-if panel is what its command prints."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import batchstat
from batchstat.profiling.parquet import load_profile
from batchstat.render.html.what_if import NO_ROWS
from conftest import SAMPLE_DATA, Cli, write_jsonl
from html_panel import check_row, panel_of

CHATS = (SAMPLE_DATA / "chat.jsonl").read_text("utf-8").splitlines(keepends=True)[:40]


def check_commands(cli: Cli, page: str, every: int) -> None:
    """Every n-th command prints the numbers of its row."""
    panel = panel_of(page)
    assert len(panel.choices) == len(panel.rows) > every
    for choice, cells in list(zip(panel.choices, panel.rows, strict=True))[::every]:
        program, command, *words = shlex.split(choice["command"])
        assert (program, command) == ("batchstat", "compare")
        code, out, err = cli("compare", *words, "--json", "--no-plots")
        assert code == 0, (choice["command"], err)
        check_row(cells, json.loads(out))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    records: list[dict[str, object]] = [
        {"text": "word " * int(length), "label": label}
        for length, label in zip(
            rng.lognormal(3, 1, 100).clip(1, 300), rng.choice(["a", "b"], 100), strict=True
        )
    ]
    return write_jsonl(tmp_path / "corpus.jsonl", records)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--current", "hf-trainer", "--world-size", 4, "--gradient-accumulation-steps", 2),
        ("--current", "trl:packing=bfd,batch_size=2", "--max-length", 64, "--strategy", "fairseq"),
        ("--tokens-per-batch", 700, "--order", "file", "--overflow", "split", "--max-length", 30),
        (
            "--batch-size",
            4,
            "--strategy",
            "axolotl:sample_packing=true",
            "--strategy",
            "hf-trainer",
            "--drop-last",
        ),
        ("--sampler", "weights=a:1,b:2", "--model", "hidden=64,layers=2,vocabulary=100"),
        ("--keep-labels", "a", "--distribute", "samples", "--world-size", 2, "--seeds", 2),
    ],
    ids=["usual", "ranks", "packed", "split", "sizes", "sampler", "labels"],
)
def test_a_command_prints_its_row(cli: Cli, corpus: Path, words):
    own = ("--label-column", "label", "--html", "page.html", "--no-plots")
    code, _, err = cli("compare", "corpus.jsonl", *words, *own)
    assert code == 0, err
    check_commands(cli, (corpus.parent / "page.html").read_text("utf-8"), every=18)


@pytest.mark.usefixtures("tokenizers_loaded_once")
@pytest.mark.parametrize("names_corpus", [True, False])
def test_a_command_reads_the_trainer_s_configuration_again(cli: Cli, tmp_path: Path, names_corpus):
    """It decides which samples are batched, and may name another corpus."""
    chats = tmp_path / "chats.jsonl"
    chats.write_text("".join(CHATS), "utf-8")
    named = {"datasets": [{"path": "json", "data_files": chats.as_posix()}]}
    values = {"max_length": 64, "packing": True, "per_device_train_batch_size": 2, "seed": 7}
    config = tmp_path / "sft.json"
    config.write_text(json.dumps(values | (named if names_corpus else {})))
    corpus = () if names_corpus else (chats, "--messages-column", "messages")
    words = (*corpus, "--current", "sft.json", "--world-size", 2)
    code, _, err = cli("compare", *words, "--html", "page.html", "--no-plots")
    assert code == 0, err
    check_commands(cli, (tmp_path / "page.html").read_text("utf-8"), every=37)


def test_a_command_of_a_part_draws_it_again(cli: Cli, tmp_path: Path):
    lengths = np.random.default_rng(3).lognormal(3, 1, 60_000).clip(1, 300).astype(int)
    (tmp_path / "lengths.csv").write_text("n\n" + "\n".join(map(str, lengths)))
    words = ("lengths.csv", "--length-column", "n", "--subsample", "50%", "--html", "page.html")
    code, _, err = cli("compare", *words, "--no-plots")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "estimate from 50.0% of the corpus" in panel_of(page).notes[1]
    check_commands(cli, page, every=41)


def test_a_page_made_in_python_has_commands(cli: Cli, corpus: Path):
    assert cli("profile", "corpus.jsonl", "--no-plots")[0] == 0
    profile = load_profile(corpus.parent / "batchstat-results")
    comparison = batchstat.compare(profile, current="hf-trainer", seed=5, world_size=2)
    check_commands(cli, batchstat.to_html(comparison, profile), every=17)


def test_where_a_part_in_file_order_was_drawn_it_says_why_there_is_no_panel():
    comparison = batchstat.compare(
        [7, 9] * 150_000, strategies="bucketed", subsample=0.8, order="file"
    )
    page = batchstat.to_html(comparison)
    assert NO_ROWS in page
    assert "<form" not in page


def test_a_corpus_whose_name_cannot_be_pasted_is_not_named(cli: Cli, tmp_path: Path):
    """Then the profile in the results folder is meant."""
    texts = "".join(f"{'word ' * (i % 9 + 1)}\n" for i in range(60))
    named = {}
    for name in ("plain.txt", "line\nbreak.txt"):
        (tmp_path / name).write_text(texts)
        assert cli("compare", name, "--batch-size", 4, "--no-plots", "--html", "p.html")[0] == 0
        commands = [each["command"] for each in panel_of((tmp_path / "p.html").read_text()).choices]
        named[name] = {name in command for command in commands}
    assert named == {"plain.txt": {True}, "line\nbreak.txt": {False}}
