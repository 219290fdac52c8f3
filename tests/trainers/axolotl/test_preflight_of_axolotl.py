"""`preflight` of axolotl's configuration against what axolotl itself made: see make_axolotl.py."""

import json
import re
from collections.abc import Iterator
from math import ceil, sqrt
from pathlib import Path
from statistics import mean, variance
from typing import Any, NamedTuple

import numpy as np
import pytest
from axolotl_corpora import CONTENTS, digest_of, save_corpora, save_tokenizers
from make_axolotl import SOME_CHATS, configuration

import batchstat
from batchstat.lengths.lost import Lost
from batchstat.planning.inputs import resolve_inputs
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.results import Simulation
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.changes import Trainer
from batchstat.trainers.preflight.corpus import profile_keywords
from batchstat.trainers.preflight.current import training_of
from batchstat.trainers.preflight.samples import epoch_size
from conftest import needs, write_jsonl
from reports import sizes_of

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

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
    folder = Path(batchstat.__file__).parent / "trainers" / "axolotl" / "templates"
    template = (folder / f"{name}{ending}.jinja").read_text(encoding="utf-8")
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


class Run(NamedTuple):
    """What the configuration makes of the corpus with a seed."""

    samples: int
    steps: int
    counts: PlanCounts


def runs_of(config: Path, case: dict[str, Any]) -> Iterator[Run]:
    """What is reported for each of the seeds: without the changes that would help, of which the
    simulation takes most of the time of a report."""
    setup = read_setup(config, "axolotl")
    profile = batchstat.profile(**profile_keywords(setup))
    for seed in SEEDS:
        settings = {"world_size": case["ranks"], "seed": seed}
        current = training_of(Trainer(setup=setup, profile=profile, settings=settings))
        inputs = resolve_inputs(current.samples.profile)
        found = simulate_candidates(inputs, current.settings, strategies=(), current=current.row)
        row = found.changes.current
        size = epoch_size(current.samples, Simulation(found.basis, row, ()))
        made = Run(len(current.samples.profile), setup.schedule.total_steps(size), row.counts)
        if seed == SEEDS[0]:
            report = batchstat.preflight(config, profile, framework="axolotl", **settings)
            reported = Run(
                len(report.samples.profile), report.total_steps, report.simulation.row.counts
            )
            assert made == reported
        yield made


@pytest.mark.parametrize("case", [each for each in MADE["drawn"] if each["totals"]], ids=named)
def test_what_axolotl_draws_unseeded_has_the_same_distribution(tmp_path, tokenizers, corpora, case):
    reports = list(runs_of(written(tmp_path, case, corpora, tokenizers), case))
    assert {each.samples for each in reports} == {case["samples"]}
    assert {each.steps for each in reports} == {*case["steps"]}
    counts = [each.counts for each in reports]
    batches = {each.batches // case["ranks"] for each in counts}
    assert batches == {number for number, _ in case["totals"]}
    totals = [total for _, total in case["totals"]]
    assert agree([each.total_tokens for each in counts], totals)


def test_steps_that_axolotl_estimates_have_the_same_distribution(tmp_path, tokenizers, corpora):
    case = next(each for each in MADE["drawn"] if "packed by eights" in each["example"])
    steps = [each.steps for each in runs_of(written(tmp_path, case, corpora, tokenizers), case)]
    assert len({*steps}) > 1
    assert agree(steps, case["steps"])
    assert not agree([each + 4 for each in steps], case["steps"])  # one batch more in each epoch


def test_distributions_that_differ_do_not_agree(tmp_path, tokenizers, corpora):
    case = next(each for each in MADE["drawn"] if "batches of 4" in each["example"])
    ungrouped = case | {"values": case["values"] | {"group_by_length": False}}
    reports = runs_of(written(tmp_path, ungrouped, corpora, tokenizers), case)
    ours = [each.counts.total_tokens for each in reports]
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
        ({"batch_size": 4}, "batch_size needs micro_batch_size: add it"),
        ({"warmup_steps": 2, "warmup_ratio": 0.1}, "warmup_ratio contradicts warmup_steps"),
        ({"max_steps": -2}, "max_steps=-2: must be between -1 and"),
        ({"ddp": False}, "ddp=false is not modelled.* remove it"),
        (
            {"sample_packing": True, "multipack_real_batches": False, "sdp_attention": True},
            "multipack_real_batches=false is not modelled with this attention.* remove it",
        ),
        (
            {"sample_packing": True, "pad_to_multiple_of": 1, "sequence_len": 100},
            "pad_to_multiple_of=1 is not modelled with sample_packing: remove it",
        ),
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
            {"path": "a.jsonl", "type": "chat_template", "message_property_mappings": True},
            "with message_property_mappings=True, not read here",
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
        (
            {"path": "a.jsonl", "type": {"field_output": "a", "format": "{instruction}"}},
            "with type {'field_output': 'a', 'format': '{instruction}'}, not read here",
        ),
        ({"path": "a.jsonl"}, "with type None, not read here"),
        ("a.jsonl", "with 'a.jsonl', not read here"),
    ],
)
def test_a_dataset_that_is_not_read_can_be_passed(tmp_path, entry, message):
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(wrong(tmp_path, datasets=[entry]), framework="axolotl")


CHATML = {"base_model": None, "chat_template": "chatml", "eot_tokens": ["<|im_end|>"]}


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
        config = wrong(tmp_path, **CHATML, datasets=[entry])
        found.append(batchstat.preflight(config, framework="axolotl").profile)
    assert found[0].lengths.tolist() == found[1].lengths.tolist()
    assert found[0].trained_tokens == found[1].trained_tokens > 0


def test_batch_size_counts_steps_but_accumulates_nothing(tmp_path, corpora):
    """As axolotl validates `gradient_accumulation_steps` to 1 before it would divide."""
    profile = batchstat.profile(corpora["text"])
    report = batchstat.preflight(
        wrong(tmp_path, batch_size=12, micro_batch_size=3, num_epochs=2),
        profile,
        framework="axolotl",
    )
    assert report.setup.batching.settings["gradient_accumulation_steps"] == 1
    assert report.total_steps == ceil(2 * len(report.samples.profile) / 12)


@pytest.mark.parametrize("packs", [False, True])
def test_max_steps_of_minus_one_are_the_trainers(tmp_path, corpora, packs):
    """And no share of them is warm-up."""
    profile = batchstat.profile(corpora["text"])
    values = {"sample_packing": packs, "flash_attention": True, "sequence_len": 512}
    values |= {"gradient_accumulation_steps": 2, "num_epochs": 2.5, "warmup_ratio": 0.3}
    config = wrong(tmp_path, **values, max_steps=-1, seed=7)
    report = batchstat.preflight(config, profile, framework="axolotl")
    per_epoch = ceil(len(sizes_of(report, 0, 0)) / 2)
    assert (report.total_steps, report.warmup_steps) == (ceil(2.5 * per_epoch), 0)


def texts_of(values: dict[str, Any], tmp_path: Path) -> list[str]:
    """The warnings about such a configuration."""
    return [each.message for each in read_setup(wrong(tmp_path, **values), "axolotl").warnings]


def test_only_without_the_key_is_there_no_seed(tmp_path):
    """As axolotl takes null for 42."""
    assert any("without seed" in each for each in texts_of({}, tmp_path))
    assert not any("without seed" in each for each in texts_of({"seed": None}, tmp_path))


@pytest.fixture(scope="module")
def ending(tmp_path_factory) -> dict[str, Path]:
    """Tokenizers of a few words, by the token that ends a sequence."""
    transformers, tokenizers = needs("transformers"), needs("tokenizers")
    words = tokenizers.models.WordLevel({"<unk>": 0, "a": 1, "b": 2, "c": 3}, unk_token="<unk>")
    backend = tokenizers.Tokenizer(words)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.add_special_tokens(["<|im_end|>", "<|eot_id|>", "</s>"])
    folders = {}
    for eos in ("<|im_end|>", "</s>"):
        made = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos)
        folders[eos] = tmp_path_factory.mktemp("ending")
        made.save_pretrained(folders[eos])
    return folders


@pytest.mark.parametrize(
    ("keys", "stops"),
    [
        ({}, True),
        ({"eot_tokens": ["<|im_end|>"]}, False),
        ({"special_tokens": {"eos_token": "<|im_end|>"}}, False),
        ({"eot_tokens": ["<|eot_id|>"]}, True),
    ],
)
@pytest.mark.parametrize("trains", [False, True])
def test_a_token_that_ends_a_turn_untrained_is_refused(tmp_path, ending, keys, stops, trains):
    """axolotl trains it as the tokenizer's eos_token, or as one of eot_tokens."""
    chat = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": chat}) + "\n")
    entry = {"path": str(path), "type": "chat_template"}
    found = []
    for eos, folder in ending.items():
        values = {"base_model": str(folder), "chat_template": "chatml"}
        values |= {"train_on_inputs": trains, "datasets": [entry], **keys}
        config = wrong(tmp_path, **values)
        if stops and eos == "</s>":
            message = r"axolotl trains <\|im_end\|>, which ends a turn, only where .*\(</s> in"
            with pytest.raises(batchstat.InputError, match=message):
                batchstat.preflight(config, framework="axolotl")
        else:
            found.append(batchstat.preflight(config, framework="axolotl").profile.trained_tokens)
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("other", "warns"),
    [
        ({"dataloader_drop_last": True}, True),
        ({"num_epochs": 0.5}, True),
        ({}, False),
        ({"num_epochs": 0.5, "eval_sample_packing": False}, False),
        ({"num_epochs": 0.5, "val_set_size": 0}, False),
        ({"num_epochs": 0.5, "sample_packing": False}, False),
    ],
)
def test_samples_held_out_that_may_make_no_step(tmp_path, other, warns):
    values = {"sample_packing": True, "val_set_size": 0.1, **other}
    found = texts_of(values, tmp_path)
    assert any("eval_sample_packing=false avoids it" in each for each in found) is warns


def test_a_remedy_names_the_keys_of_the_configuration(tmp_path, corpora):
    profile = batchstat.profile(corpora["text"])
    values = {"micro_batch_size": 1_000, "dataloader_drop_last": True}
    with pytest.raises(batchstat.InputError) as caught:
        batchstat.preflight(wrong(tmp_path, **values), profile, framework="axolotl")
    assert "no batches left" in str(caught.value)
    assert str(caught.value).endswith(
        "axolotl.yaml, batch_size is micro_batch_size and drop_last is dataloader_drop_last"
    )


@pytest.mark.parametrize("epochs", [0.02, 2.5])
def test_steps_are_the_trainers_where_axolotl_counts_none(tmp_path, corpora, epochs):
    """Counted are 0, or -1: then the Trainer counts them, and takes a share for the warm-up."""
    profile = batchstat.profile(corpora["text"])
    values = {"sample_packing": True, "flash_attention": True, "micro_batch_size": 64}
    values |= {"dataloader_drop_last": epochs > 1, "sequence_len": 512, "warmup_ratio": 0.3}
    config = wrong(tmp_path, **values, num_epochs=epochs, seed=7)
    report = batchstat.preflight(config, profile, framework="axolotl")
    assert len(sizes_of(report, 0, 0)) == 1
    expected = {0.02: (1, 1), 2.5: (3, 0)}
    assert (report.total_steps, report.warmup_steps) == expected[epochs]


def test_an_empty_text_is_no_sample(tmp_path, tokenizers):
    """As axolotl tokenizes nothing of it; one of whitespace is a sample."""
    texts = ["one two three", "", "four five", " ", "six"]
    files = [
        write_jsonl(tmp_path / f"{i}.jsonl", [{"text": text} for text in kept])
        for i, kept in enumerate((texts, [text for text in texts if text]))
    ]
    orders = []
    for corpus in files:
        entry = {"path": str(corpus), "type": "completion"}
        config = wrong(
            tmp_path, datasets=[entry], base_model=str(tokenizers["instructions"]), seed=7
        )
        samples = batchstat.preflight(config, framework="axolotl").samples
        orders.append(samples.profile.lengths.tolist())
    assert orders[0] == orders[1]
    assert len(orders[0]) == len(texts) - 1


@pytest.mark.parametrize("ending", ["", "_all"])
@pytest.mark.parametrize("name", MADE["templates"])
def test_an_empty_answer_is_not_trained(tmp_path, tokenizers, name, ending):
    """Neither is the token that ends it: axolotl looks for that where it found the answer."""
    turns = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": ""}]
    trained = []
    for kept in (1, 2):
        corpus = write_jsonl(tmp_path / f"{kept}.jsonl", [{"messages": turns[:kept]}])
        config = wrong(
            tmp_path,
            base_model=str(tokenizers["headers"]),
            chat_template=name,
            eot_tokens=["<|im_end|>", "<|eot_id|>"],
            train_on_inputs=bool(ending),
            datasets=[{"path": str(corpus), "type": "chat_template"}],
        )
        trained.append(batchstat.preflight(config, framework="axolotl").profile.trained_tokens)
    assert trained[0] == trained[1]


def chats_with(folder: Path, tokenizer: Path, template: str | None, ends: list[str] | None) -> Path:
    """A configuration for random chats in a template."""
    corpus = write_jsonl(folder / "chats.jsonl", [{"messages": chat} for chat in SOME_CHATS])
    entry = {"path": str(corpus), "type": "chat_template"}
    if template is not None:
        (folder / "chat.jinja").write_text(template, encoding="utf-8")
        entry |= {"chat_template": "jinja", "chat_template_jinja": str(folder / "chat.jinja")}
    return wrong(folder, base_model=str(tokenizer), datasets=[entry], eot_tokens=ends)


def masks_of(profile: batchstat.Profile) -> list[str]:
    """1 for each token of a sample that carries loss, and 0 for others."""
    assert profile.trained is not None
    masks = []
    for i, length in enumerate(profile.lengths.tolist()):
        edges = profile.trained.edges[profile.trained.offsets[i] : profile.trained.offsets[i + 1]]
        mask = np.zeros(length, dtype=int)
        for begin, end in edges.reshape(-1, 2):
            mask[begin:end] = 1
        masks.append("".join(map(str, mask)))
    return masks


@pytest.mark.parametrize("number", range(len(CONTENTS)))
def test_what_assistants_say_is_found_as_axolotl_finds_it(tmp_path, tokenizers, number):
    kind, template, ends = CONTENTS[number]
    config = chats_with(tmp_path, tokenizers[kind], template, ends)
    found = batchstat.profile(**profile_keywords(read_setup(config, "axolotl")))
    assert masks_of(found) == MADE["contents"][number]


def test_a_template_that_is_passed_with_marks_says_what_is_trained(tmp_path, tokenizers):
    config = chats_with(tmp_path, tokenizers["headers"], None, None)
    setup = read_setup(config, "axolotl")
    template = tokenizers["chat"] / "chat_template.jinja"
    assert profile_keywords(setup)["turn_ends"] == ("<|eot_id|>",)
    assert "turn_ends" not in profile_keywords(setup, chat_template=template)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"special_tokens": {"eos_token": "<|im_end|>"}}, "makes <|im_end|> the eos_token of"),
        ({"eot_tokens": ["role"]}, "'role', which ends a turn, is not an added token"),
    ],
)
def test_tokens_that_end_turns_are_those_of_the_tokenizer(tmp_path, tokenizers, values, message):
    config = chats_with(tmp_path, tokenizers["headers"], None, None)
    values = json.loads(config.read_text()) | values
    config.write_text(json.dumps(values))
    with pytest.raises(batchstat.InputError, match=re.escape(message)):
        batchstat.preflight(config, framework="axolotl")


def test_a_column_of_system_messages_is_refused(tmp_path):
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    corpus = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat, "system": "Be brief."}])
    entry = {"path": str(corpus), "type": "chat_template"}
    config = wrong(tmp_path, **CHATML, datasets=[entry])
    with pytest.raises(batchstat.InputError, match="has the column 'system'; axolotl begins"):
        batchstat.preflight(config, framework="axolotl")


def test_a_file_counts_and_not_its_data_files(tmp_path):
    """As axolotl reads `data_files` only in a folder."""
    for name, texts in (("a", ["one two", "three four"]), ("b", ["five six"])):
        write_jsonl(tmp_path / f"{name}.jsonl", [{"text": text} for text in texts])
    entry = {"path": str(tmp_path / "a.jsonl"), "data_files": str(tmp_path / "b.jsonl")}
    config = wrong(tmp_path, datasets=[{**entry, "type": "completion"}])
    assert read_setup(config, "axolotl").corpus.reading["corpus"] == (entry["path"],)


def test_the_template_of_entries_that_are_not_read_counts_for_a_corpus(tmp_path):
    entry = {"path": "a.jsonl", "type": "chat_template", "roles_to_train": ["user"]}
    config = wrong(tmp_path, chat_template="chatml", datasets=[entry])
    assert read_setup(config, "axolotl").corpus.reading["chat_template"].stem == "chatml"


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
    tokens = np.bincount(found.records, weights=found.lengths)
    assert tokens[profile.records].tolist() == profile.lengths.tolist()
    assert tokens.sum() == profile.lengths.sum()


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


@pytest.mark.parametrize("trains", [False, True])
def test_a_template_that_begins_with_a_token_needs_one(tmp_path, tokenizers, trains):
    """As axolotl's llama3 stops with a tokenizer that has no bos_token."""
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    corpus = write_jsonl(tmp_path / "a.jsonl", [{"messages": chat}])
    values = {
        "chat_template": "llama3",
        "eot_tokens": ["<|eot_id|>"],
        "train_on_inputs": trains,
        "datasets": [{"path": str(corpus), "type": "chat_template"}],
    }
    with pytest.raises(batchstat.InputError, match="bos_token"):
        batchstat.preflight(
            wrong(tmp_path, base_model=str(tokenizers["chat"]), **values), framework="axolotl"
        )
    config = wrong(tmp_path, base_model=str(tokenizers["headers"]), **values)
    assert len(batchstat.preflight(config, framework="axolotl").profile) == 1
