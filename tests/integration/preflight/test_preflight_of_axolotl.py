"""`preflight` of axolotl's configuration against what axolotl itself made: see make_axolotl.py."""

import json
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from statistics import mean, variance
from typing import Any

import numpy as np
import pytest
from axolotl_corpora import digest_of, save_corpora, save_tokenizers
from make_axolotl import configuration
from reports import sizes_of

import batchstat
from batchstat.frameworks.files import read_setup
from batchstat.lengths.lost import Lost
from batchstat.simulation.preflight_corpus import profile_keywords
from conftest import needs, write_jsonl

MADE = json.loads((Path(__file__).parent / "axolotl.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory) -> dict[str, Path]:
    needs("transformers")
    return save_tokenizers(tmp_path_factory.mktemp("axolotl"))


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> dict[str, Path]:
    return save_corpora(tmp_path_factory.mktemp("axolotl-corpora"))


def named(case: dict[str, Any]) -> str:
    return f"{case['example']} {case['ranks']}"


def written(folder: Path, case: dict[str, Any], corpora, tokenizers) -> Path:
    kind = case["corpus"]
    config = folder / "axolotl.yaml"
    config.write_text(
        json.dumps(configuration(case["values"], kind, corpora[kind], tokenizers[kind]))
    )
    return config


@pytest.mark.parametrize("case", MADE["cases"], ids=named)
def test_its_batches_are_axolotls(tmp_path, tokenizers, corpora, case):
    config = written(tmp_path, case, corpora, tokenizers)
    report = batchstat.preflight(config, framework="axolotl", world_size=case["ranks"])
    assert len(report.samples.profile) == case["samples"]
    assert report.samples.held_out == case["held_out"]
    for epoch, ranks in enumerate(case["epochs"]):
        for rank, expected in enumerate(ranks):
            assert sizes_of(report, rank, epoch) == expected
    assert (report.total_steps, report.warmup_steps) == (case["steps"], case["warmup"])


@pytest.mark.parametrize("ending", ["", "_all"])
@pytest.mark.parametrize("name", MADE["templates"])
def test_its_own_templates_render_the_same(tokenizers, name, ending):
    folder = Path(batchstat.__file__).parent / "frameworks" / "chat_templates"
    template = (folder / f"axolotl_{name}{ending}.jinja").read_text(encoding="utf-8")
    assert digest_of(template, tokenizers["headers"]) == MADE["templates"][name]


SEEDS = range(1_000, 1_050)
"""Others than those of the recorded runs."""


def agree(ours: list[int], theirs: list[int]) -> bool:
    """Whether two samples may be of one distribution: their means, and Kolmogorov-Smirnov's test
    at the level of 0.001, which is conservative where values repeat."""
    n, m = len(ours), len(theirs)
    error = sqrt(variance(ours) / n + variance(theirs) / m)
    values = sorted({*ours, *theirs})
    below = [np.searchsorted(np.sort(each), values, "right") / len(each) for each in (ours, theirs)]
    distance = float(np.abs(below[0] - below[1]).max())
    near = abs(mean(ours) - mean(theirs)) <= 3 * error
    return near and distance <= 1.95 * sqrt((n + m) / (n * m))


def runs_of(config: Path, case: dict[str, Any]) -> Iterator[Any]:
    """What is reported for each of the seeds."""
    setup = read_setup(config, "axolotl")
    profile = batchstat.profile(**profile_keywords(setup))
    for seed in SEEDS:
        yield batchstat.preflight(
            config, profile, framework="axolotl", world_size=case["ranks"], seed=seed
        )


@pytest.mark.parametrize("case", [each for each in MADE["drawn"] if each["totals"]], ids=named)
def test_what_axolotl_draws_unseeded_has_the_same_distribution(tmp_path, tokenizers, corpora, case):
    reports = list(runs_of(written(tmp_path, case, corpora, tokenizers), case))
    assert {len(each.samples.profile) for each in reports} == {case["samples"]}
    assert {each.total_steps for each in reports} == {*case["steps"]}
    counts = [each.simulation.row.counts for each in reports]
    batches = {each.batches // case["ranks"] for each in counts}
    assert batches == {number for number, _ in case["totals"]}
    totals = [total for _, total in case["totals"]]
    assert agree([each.total_tokens for each in counts], totals)


def test_steps_that_axolotl_estimates_have_the_same_distribution(tmp_path, tokenizers, corpora):
    case = next(each for each in MADE["drawn"] if "packed by eights" in each["example"])
    steps = [
        each.total_steps for each in runs_of(written(tmp_path, case, corpora, tokenizers), case)
    ]
    assert len({*steps}) > 1
    assert agree(steps, case["steps"])
    assert not agree([each + 4 for each in steps], case["steps"])  # one batch more in each epoch


def test_distributions_that_differ_do_not_agree(tmp_path, tokenizers, corpora):
    case = next(each for each in MADE["drawn"] if "batches of 4" in each["example"])
    ungrouped = case | {"values": case["values"] | {"group_by_length": False}}
    reports = runs_of(written(tmp_path, ungrouped, corpora, tokenizers), case)
    ours = [each.simulation.row.counts.total_tokens for each in reports]
    assert not agree(ours, [total for _, total in case["totals"]])


def wrong(folder: Path, **values: Any) -> Path:
    path = folder / "axolotl.yaml"
    path.write_text(json.dumps({"base_model": "x", "sequence_len": 64, **values}))
    return path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample_packin": True}, "unknown key 'sample_packin'"),
        ({"rl": "dpo"}, "rl='dpo' is not modelled: only supervised"),
        ({"streaming": True}, "streaming=True is not modelled"),
        ({"context_parallel_size": 2}, "context_parallel_size=2 is not modelled"),
        ({"plugins": ["mine.Plugin"]}, "plugins has 'mine.Plugin'"),
        (
            {"train_on_inputs": True, "datasets": [{"path": "a.jsonl", "type": "chat_template"}]},
            "train_on_inputs=true is not modelled for chats without chat_template=chatml",
        ),
        ({"val_set_size": 1}, "val_set_size=1 leaves no sample"),
        ({"batch_size": 3, "micro_batch_size": 2}, "batch_size=3 is not a multiple of micro"),
        (
            {"batch_size": 2, "micro_batch_size": 2, "gradient_accumulation_steps": 1},
            "batch_size contradicts gradient_accumulation_steps: remove batch_size",
        ),
        ({"warmup_steps": 2, "warmup_ratio": 0.1}, "warmup_ratio contradicts warmup_steps"),
        ({"chat_template": "jinja"}, "chat_template=jinja needs chat_template_jinja"),
        (
            {"datasets": [{"path": "a.jsonl", "type": "chat_template", "chat_template": "jinja"}]},
            "chat_template=jinja needs chat_template_jinja",
        ),
        (
            {"flash_attention": True, "attn_implementation": "sdpa"},
            "attn_implementation contradicts flash_attention",
        ),
    ],
)
def test_what_is_not_modelled_is_refused(tmp_path, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(wrong(tmp_path, **values), framework="axolotl")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "a.jsonl", "type": "jeopardy"}, "datasets with type 'jeopardy', not read here"),
        (
            {"path": "who/what", "type": "alpaca"},
            "who/what.*not a local file: pass",
        ),
        (
            {"path": "who/what", "type": "completion"},
            "who/what.*not a local file: pass",
        ),
        (
            {"path": "a.jsonl", "type": "chat_template", "chat_template": "gemma"},
            "names chat_template 'gemma', a template of axolotl's own: pass its text",
        ),
        (
            {"path": "a.jsonl", "type": "chat_template", "roles_to_train": ["user"]},
            r"with roles_to_train=\['user'\], not read here",
        ),
        (
            {"path": "a.jsonl", "type": "chat_template", "message_field_role": "author"},
            "with message_property_mappings={.*'role': 'author'.*}, not read here",
        ),
        (
            {"path": "a.jsonl", "type": "completion", "split": "train[:10%]"},
            r"with split='train\[:10%\]', not read here",
        ),
        ({"path": "a.jsonl", "type": "alpaca", "field": "x"}, "with field='x', not read here"),
        (
            {"path": "a.jsonl", "type": "completion", "ds_type": "csv"},
            "with ds_type='csv', which 'a.jsonl' does not end in: pass the files",
        ),
        ({"path": "a.jsonl"}, "with type None, not read here"),
        ("a.jsonl", "with 'a.jsonl', not read here"),
    ],
)
def test_a_dataset_that_is_not_read_can_be_passed(tmp_path, entry, message):
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(wrong(tmp_path, datasets=[entry]), framework="axolotl")


@pytest.mark.parametrize(
    "mapping",
    [
        {"message_property_mappings": {"role": "from", "content": "value"}},
        {"message_field_role": "from", "message_field_content": "value"},
    ],
)
def test_chats_with_other_names_for_roles_and_contents(tmp_path, mapping):
    turns = [("human", "user", "How many?"), ("gpt", "assistant", "Three, of them all.")]
    chats = {
        "a": [{"role": role, "content": text} for _, role, text in turns],
        "b": [{"from": role, "value": text} for role, _, text in turns],
    }
    found = []
    for name, own in (("a", {}), ("b", mapping)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps({"messages": chats[name]}) + "\n")
        entry = {"path": str(path), "type": "chat_template", **own}
        config = wrong(tmp_path, base_model=None, chat_template="chatml", datasets=[entry])
        found.append(batchstat.preflight(config, framework="axolotl").profile)
    assert found[0].lengths.tolist() == found[1].lengths.tolist()
    assert found[0].trained_tokens == found[1].trained_tokens > 0


def test_batch_size_is_that_of_a_step(tmp_path):
    setup = read_setup(wrong(tmp_path, batch_size=12, micro_batch_size=3), "axolotl")
    assert setup.settings["gradient_accumulation_steps"] == 12 // 3


def test_longer_samples_are_refused_where_axolotl_refuses_them(tmp_path, corpora):
    profile = batchstat.profile(corpora["text"])
    config = wrong(tmp_path, excess_length_strategy="raise", sequence_len=16)
    with pytest.raises(batchstat.InputError, match="excess_length_strategy=raise refuses"):
        batchstat.preflight(config, profile, framework="axolotl")


def test_texts_that_are_split_keep_their_tokens(tmp_path, corpora):
    entry = {"path": str(corpora["text"]), "type": "completion"}
    profile = batchstat.profile(corpora["text"])
    config = wrong(tmp_path, datasets=[entry], sequence_len=16, min_sample_len=1, seed=3)
    samples = batchstat.preflight(config, profile, framework="axolotl").samples
    found = samples.profile
    assert found.lengths.max() == 16
    assert samples.lost == Lost()
    tokens = np.bincount(found.records, weights=found.lengths, minlength=len(profile))
    assert tokens.tolist() == profile.lengths.tolist()


def test_entries_with_other_templates_are_not_read(tmp_path):
    files = [{"path": f"{name}.jsonl", "type": "chat_template"} for name in "ab"]
    entries = [
        {**each, "chat_template": name}
        for each, name in zip(files, ("chatml", "llama3"), strict=True)
    ]
    with pytest.raises(batchstat.InputError, match="has datasets with entries that differ"):
        batchstat.preflight(wrong(tmp_path, datasets=entries), framework="axolotl")


def test_a_prompt_without_an_answer_is_truncated_to_fit(tmp_path, tokenizers):
    """As axolotl truncates prompts before it appends their answers, and drops what is longer."""
    rows = [{"instruction": "word " * 200, "output": output} for output in ("", "an answer")]
    corpus = write_jsonl(tmp_path / "a.jsonl", rows)
    entry = {"path": str(corpus), "type": "alpaca"}
    config = wrong(tmp_path, datasets=[entry], base_model=str(tokenizers["instructions"]))
    samples = batchstat.preflight(config, framework="axolotl").samples
    assert samples.profile.lengths.tolist() == [64]
    assert samples.dropped == {"longer than 64 tokens": 1}
