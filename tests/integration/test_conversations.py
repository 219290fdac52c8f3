"""Chats of several turns, through every command that counts or weighs their trained tokens."""

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition
from conftest import SAMPLE_DATA, Run, write_jsonl

CONVERSATIONS = SAMPLE_DATA / "conversations.jsonl"
FLAGS = ["--messages-column", "messages", "--assistant-only-loss", "--no-plots"]
USER = {"role": "user", "content": "Well?"}
SYSTEM = {"role": "system", "content": "Be brief."}
SILENT = {"role": "assistant", "content": ""}
STRATEGIES = ("static", "bucketed", "token-budget", "packed")


@pytest.fixture(scope="module")
def oracle() -> list[int]:
    """Trained tokens of each chat, by transformers."""
    loaded = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(definition()))
    lines = CONVERSATIONS.read_text(encoding="utf-8").splitlines()
    options = {"return_dict": True, "return_assistant_tokens_mask": True}
    return [
        sum(
            loaded.apply_chat_template(
                json.loads(line)["messages"], chat_template=CHAT_TEMPLATE, **options
            )["assistant_masks"]
        )
        for line in lines
    ]


def counted_in(folder: Path) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = pq.read_table(folder / "lengths.parquet").to_pydict()
    return columns


def test_it_has_answers_of_very_different_lengths(oracle):
    chats = [json.loads(line)["messages"] for line in CONVERSATIONS.open(encoding="utf-8")]
    turns = [sum(each["role"] == "assistant" for each in chat) for chat in chats]
    assert (min(turns), max(turns)) == (1, 6)
    assert 0 < sum(chat[0]["role"] == "system" for chat in chats) < len(chats)
    assert max(oracle) > 20 * min(oracle)


def test_trained_tokens_of_one_thread_and_several(run: Run, tmp_path, oracle):
    shown = run("profile", CONVERSATIONS, *FLAGS, "--json")
    trained = json.loads(shown.stdout)["trained"]
    assert (trained["tokens"], trained["untrained_samples"]) == (sum(oracle), 0)
    whole = counted_in(tmp_path / "batchstat-results")
    assert whole["trained"] == oracle
    lines = CONVERSATIONS.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.jsonl").write_bytes(b"".join(lines[20 * i : 20 * i + 20]))
    for workers in (1, 3):
        counted = ["--workers", workers, "-o", f"by-{workers}"]
        made = run("profile", "parts", *FLAGS, *counted, BATCHSTAT_CACHE_DIR=os.devnull)
        assert made.returncode == 0, made.stderr
        assert counted_in(tmp_path / f"by-{workers}") == whole


def test_weights_on_several_ranks(run: Run, oracle):
    """Without truncation and repeats, every token that transformers trains is weighed once."""
    assert run("profile", CONVERSATIONS, *FLAGS).returncode == 0
    ranks = ["--world-size", 4, "--remainder", "uneven", "--batch-size", 2]
    rows = [flag for name in STRATEGIES for flag in ("--strategy", name)]
    found = {}
    for loss in ("mean-per-batch", "token-sum"):
        shown = run("compare", "--no-plots", *ranks, *rows, "--loss", loss, "--json")
        assert shown.returncode == 0, shown.stderr
        found[loss] = json.loads(shown.stdout)["strategies"]
        assert {row["trained"]["tokens"] for row in found[loss]} == {sum(oracle)}
    assert all(row["trained"]["token_weight"]["p95"] > 1.3 for row in found["mean-per-batch"])
    assert {row["trained"]["token_weight"]["p95"] for row in found["token-sum"]} == {1}
    shown = run("compare", "--no-plots", *ranks, *rows, "--loss", "mean-per-batch")
    assert "multiply each batch's mean loss by batch.token_weight" in shown.stderr
    limit = ["--max-weight-spread", 2, "--current", "bucketed"]
    assert run("check", *ranks, *limit, "--loss", "mean-per-batch").returncode == 1
    assert run("check", *ranks, *limit, "--loss", "token-sum").returncode == 0


def test_checks_and_comparisons_have_the_same_numbers_of_trained_tokens(run: Run):
    setting = ("--tokens-per-batch", 4096, "--loss", "mean-per-batch")
    compared = run("compare", CONVERSATIONS, *FLAGS, *setting, "--strategy", "static", "--json")
    [row] = json.loads(compared.stdout)["strategies"]
    limit = ("--max-padding", "100%", "--format", "json")
    flags = [flag for flag in FLAGS if flag != "--no-plots"]
    checked = run("check", CONVERSATIONS, *flags, *setting, "--current", "static", *limit)
    [check] = json.loads(checked.stdout)["checks"]
    assert check["report"]["strategy"]["trained"] == row["trained"]
    assert row["trained"]["token_weight"] is not None


def test_chats_without_a_trained_token_are_counted_by_every_command(run: Run, tmp_path, oracle):
    """A system prompt alone and a question without an answer have none; silence has its end."""
    unusual = [[SYSTEM], [USER], [SYSTEM, USER], [USER, SILENT]]
    path = tmp_path / "a.jsonl"
    shutil.copy(CONVERSATIONS, path)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"messages": chat}) + "\n" for chat in unusual)
    shown = run("profile", path, *FLAGS, "--json")
    trained = json.loads(shown.stdout)["trained"]
    assert (trained["tokens"], trained["untrained_samples"]) == (sum(oracle) + 1, 3)
    alone = ["--batch-size", 1, "--loss", "mean-per-batch", "--strategy", "static"]
    compared = run("compare", "--no-plots", *alone, "--json")
    row = json.loads(compared.stdout)["strategies"][0]["trained"]
    assert (row["untrained_samples"], row["untrained_batches"]) == (3, 3)
    assert "batches without a trained token, whose mean loss is 0/0 (NaN): static 3 of" in (
        compared.stderr
    )


def test_a_corpus_without_a_trained_token_has_no_weights(run: Run, tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat} for chat in ([SYSTEM], [USER])])
    shown = run("profile", path, *FLAGS)
    assert shown.returncode == 0, shown.stderr
    assert "trained  0% of the tokens carry loss · 2 samples with none" in shown.stdout
    alone = ["--batch-size", 1, "--loss", "mean-per-batch", "--strategy", "static"]
    compared = run("compare", "--no-plots", *alone, "--json")
    assert json.loads(compared.stdout)["strategies"][0]["trained"]["token_weight"] is None
    assert "static 2 of 2: take 0 as the loss where batch.trained_tokens is 0" in compared.stderr


def test_an_answer_without_content_is_bad(run: Run, tmp_path):
    empty = {"role": "assistant", "content": None}
    chats = [[USER, empty], [USER, {"role": "assistant", "content": "Yes."}]]
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat} for chat in chats])
    result = run("profile", "a.jsonl", *FLAGS)
    assert result.returncode == 3
    [line] = result.stderr.splitlines()
    assert line.startswith("error: a.jsonl, line 1: 'messages': message 1 has no content")
    skipped = run("profile", path, *FLAGS, "--on-error", "skip", "--json")
    assert sum(json.loads(skipped.stdout)["corpus"]["skipped"].values()) == 1


def test_the_longest_answers_weigh_least_where_lengths_are_sorted(run: Run):
    assert run("profile", CONVERSATIONS, *FLAGS).returncode == 0
    settings = ["--loss", "mean-per-batch", "--gradient-accumulation-steps", 4, "--batch-size", 2]
    shown = run("compare", "--no-plots", *settings, "--strategy", "bucketed", "--json")
    weights = json.loads(shown.stdout)["strategies"][0]["trained"]["token_weight"]
    assert weights["shortest_tenth"] > 1 > weights["longest_tenth"]
