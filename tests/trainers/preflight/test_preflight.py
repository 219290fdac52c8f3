"""`preflight`: what a configuration means, and what is refused; trainers are in integration."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.corpus import profile_keywords
from batchstat.trainers.registry import CONFIGURATIONS
from batchstat.trainers.transformers.keys import keys_of_version_4
from batchstat.trainers.trl import templates as sft_templates
from conftest import SAMPLE_DATA, needs, write_jsonl
from tables import in_turn
from trainers import save_tokenizer

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

SFT = {"max_length": 64, "per_device_train_batch_size": 2}
ANSWERS = SFT | {"assistant_only_loss": True}
CHAT = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def saved(folder: Path, values: Any, name: str = "config.json") -> Path:
    (folder / name).write_text(values if isinstance(values, str) else json.dumps(values))
    return folder / name


@pytest.fixture
def texts(tmp_path) -> batchstat.Profile:
    rows = [{"text": "word " * (3 * i + 1)} for i in range(20)]
    return batchstat.profile(write_jsonl(tmp_path / "texts.jsonl", rows))


@in_turn(
    ("values", "message"),
    [
        ({**SFT, "packin": True}, "unknown key 'packin': did you mean"),
        ({"packing": True, "max_seq_length": 9}, "unknown key 'max_seq_length'.*'max_length'"),
        ({**SFT, "seed": "x"}, "config.json: seed='x': must be a number"),
        ({**SFT, "seed": 1.5}, "seed=1.5: must be a whole number"),
        ({**SFT, "packing": "yes"}, "packing='yes': must be true or false"),
        ({**SFT, "seed": None}, "seed is null"),
        ({**SFT, "max_length": 0}, "max_length=0: must be between 1"),
        ({**SFT, "packing": True, "max_length": None}, "packing=true needs max_length"),
        ({**SFT, "padding_free": True}, "does not enforce max_length=64"),
        (
            {**SFT, "packing": True, "padding_free": True, "packing_strategy": "wrapped"},
            "padding_free=true with packing_strategy=wrapped is not modelled: remove one",
        ),
        (
            {"max_length": None, "padding_free": True, "group_by_length": True},
            "padding_free=true with train_sampling_strategy=group_by_length is not modelled",
        ),
        ({**SFT, "pad_to_multiple_of": "some"}, "pad_to_multiple_of='some': must be a number"),
        ({**SFT, "streaming": True}, "streaming=True is not modelled: remove it"),
        ({**SFT, "dataset_kwargs": {"skip_prepare_dataset": True}}, "trains on samples prepared"),
        (
            {"train_sampling_strategy": "batch_rebalance"},
            "train_sampling_strategy=batch_rebalance is not modelled: record what it trains on",
        ),
        ({"train_sampling_strategy": "rebalance"}, "must be one of random, sequential"),
        (
            {"train_sampling_strategy": "sequential", "group_by_length": True},
            "contradicts train_sampling_strategy=sequential",
        ),
        (
            {"seed": 1, "accelerator_config": {"split_batches": True}},
            "split_batches=True is not modelled: remove it, and divide",
        ),
        (
            {
                "seed": 1,
                "accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}},
            },
            "num_steps=4 is not modelled: set gradient_accumulation_steps instead",
        ),
        (
            {"seed": 1, "accelerator_config": {"gradient_accumulation_kwargs": 3}},
            "gradient_accumulation_kwargs=3: must be a table of keys",
        ),
        (
            {**SFT, "packing": True, "accelerator_config": {"even_batches": False}},
            "even_batches=false with packing or padding_free is not modelled",
        ),
        (
            {"group_by_length": True, "accelerator_config": {"even_batches": False}},
            "even_batches=false with group_by_length is not modelled",
        ),
        ({"seed": 1, "accelerator_config": {"spit": 1}}, "unknown key 'spit'"),
        ({"seed": 1, "parallelism_config": {"tp": 2}}, "parallelism_config is not modelled"),
        (
            {**SFT, "packing": True, "train_sampling_strategy": "group_by_length"},
            "packing=true with train_sampling_strategy=group_by_length is not modelled",
        ),
        ({"compression": 1, "layers": 2}, "not a configuration of a known trainer.*with framework"),
        ({}, "not a configuration of a known trainer"),
        ("[1, 2]", r"contains no settings, it is \[1, 2\]: pass the trainer's"),
        ("null", "contains no settings, it is empty"),
        ("{", "config.json is not valid JSON.*: correct it"),
    ],
)
def test_a_configuration_that_is_wrong_by_itself(tmp_path, texts, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(saved(tmp_path, values), texts)


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("training_args.bin", "is a pickle", batchstat.OptionError),
        ("config.toml", "ends in .json, .yaml, .yml", batchstat.OptionError),
        ("missing.json", "no such file", batchstat.InputError),
        (
            "bad.yaml",
            "YAML: expected ',' or ']', but got ':', line 2, column 2: correct it",
            batchstat.OptionError,
        ),
        ("tag.yml", "tag.yml is not valid YAML: could not determine", batchstat.OptionError),
        (
            "two.yaml",
            "YAML: expected a single document in the stream but found another document, line 2",
            batchstat.OptionError,
        ),
        ("itself.yaml", "YAML: a table or list is in itself: correct it", batchstat.OptionError),
        ("repeats.yaml", "YAML: more than 100,000 values: correct it", batchstat.OptionError),
        ("large.yaml", "has 4,194,305 bytes, more than a config", batchstat.OptionError),
        ("pipe.yaml", "pipe.yaml is not a regular file", batchstat.OptionError),
        ("latin.yaml", "not UTF-8: save it as that", batchstat.InputError),
        ("folder.json", "folder.json is a folder: name the configuration", batchstat.OptionError),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path, texts, name, message, kind):
    saved(tmp_path, "", "training_args.bin")
    saved(tmp_path, "", "config.toml")
    saved(tmp_path, "a: [1\nb: 2", "bad.yaml")
    saved(tmp_path, "a: !!python/object:os.system x", "tag.yml")
    saved(tmp_path, "seed: 1\n---\nseed: 2", "two.yaml")
    saved(tmp_path, "seed: 1\na: &a {b: *a}", "itself.yaml")
    lists = [f"{n}: &{n} [{', '.join([f'*{n - 1}'] * 10)}]" for n in range(1, 9)]
    saved(tmp_path, "\n".join(["0: &0 [x]", *lists, "seed: *8"]), "repeats.yaml")
    saved(tmp_path, "#" * (4 << 20) + "\n", "large.yaml")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.yaml")
    elif name == "pipe.yaml":
        pytest.skip("no pipes have names here")
    (tmp_path / "latin.yaml").write_bytes("seed: 1 # für".encode("latin-1"))
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(kind, match=message):
        batchstat.preflight(tmp_path / name, texts)


def test_the_configuration_of_another_framework(tmp_path, texts):
    config = saved(tmp_path, {**SFT, "model_name_or_path": "x", "seed": 1, "warmup_steps": 1})
    message = 'transformers, which has no max_length, but of trl .*framework="trl"'
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(config, texts, framework="transformers")
    config = saved(tmp_path, {"per_device_train_batch_siz": 2})
    with pytest.raises(batchstat.OptionError, match="unknown key 'per_device_train_batch_siz'"):
        batchstat.preflight(config, texts, framework="transformers")


def test_json_and_yaml_mean_the_same(tmp_path):
    values = {**SFT, "learning_rate": 2e-5, "warmup_steps": 0.1}
    text = (
        "max_length: 64\nper_device_train_batch_size: 2\nlearning_rate: 2e-5\nwarmup_steps: 1e-1\n"
    )
    found = [read_setup(saved(tmp_path, values)), read_setup(saved(tmp_path, text, "c.yaml"))]
    assert found[0].config.values() == found[1].config.values()
    assert found[0].framework == "trl"
    assert found[0].unused == ("learning_rate",)
    assert read_setup(saved(tmp_path, {"seed": 1})).framework == "transformers"
    assert read_setup(saved(tmp_path, {"seed": 1}), "trl").batching.settings["max_length"] == 1024
    with pytest.raises(batchstat.OptionError, match="unknown framework 'tlr'"):
        read_setup(saved(tmp_path, SFT), "tlr")


def test_no_key_both_decides_and_does_not():
    for framework in CONFIGURATIONS.values():
        assert not set(framework.keys) & framework.unused


@pytest.mark.parametrize(
    ("installed", "is_other"),
    [("1.16.0", False), ("1.16", False), ("1.17.0", True), ("1.160", True)],
)
def test_another_version_that_is_installed_is_a_warning(tmp_path, monkeypatch, installed, is_other):
    folder = tmp_path / "site" / f"trl-{installed}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: trl\nVersion: {installed}\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    found = read_setup(saved(tmp_path, SFT))
    about = [each.message for each in found.warnings if each.id == "config/other-version"]
    expected = [f"checked against trl 1.16; {installed} is installed"] * is_other
    assert [each.partition(" and may")[0] for each in about] == expected


def test_keys_of_transformers_4_are_read_with_a_warning(tmp_path, texts):
    values = {"group_by_length": True, "warmup_ratio": 0.5, "evaluation_strategy": "no"}
    report = batchstat.preflight(saved(tmp_path, values), texts)
    assert report.setup.batching.strategy.text == "hf-group-by-length:batch_size=8"
    assert report.warmup_steps == -(-report.total_steps // 2)
    messages = " ".join(warning.message for warning in report.warnings)
    assert "evaluation_strategy is a key of transformers 4" in messages
    assert "unseeded random numbers" in messages


@pytest.mark.parametrize("framework", ["transformers", "trl"])
def test_the_keys_of_transformers_4_are_known(tmp_path, framework):
    values = dict.fromkeys(sorted(keys_of_version_4()), None)
    values |= {"do_train": True, "group_by_length": False, "warmup_ratio": 0.0}
    config = saved(tmp_path, values)
    assert read_setup(config, framework).config.given_keys == set(values)
    config = saved(tmp_path, {**values, "per_gpu_train_batch_size": 4})
    with pytest.raises(batchstat.OptionError, match="name it per_device_train_batch_size"):
        read_setup(config, framework)


@in_turn("key", sorted(keys_of_version_4()))
def test_changes_have_the_keys_of_the_version(tmp_path, key):
    values = {"warmup_ratio": 0.0, "group_by_length": False}
    own = {"per_device_train_batch_size": 2}
    old = read_setup(saved(tmp_path, {**own, key: values.get(key)}))
    new = read_setup(saved(tmp_path, own))
    alternatives = CONFIGURATIONS["transformers"].alternatives
    assert list(alternatives(old.config)) == [{"group_by_length": True}]
    assert list(alternatives(new.config)) == [{"train_sampling_strategy": "group_by_length"}]


def test_samples_without_a_trained_token_are_dropped(tmp_path):
    rows = [{"prompt": "word " * n, "completion": "end"} for n in (1, 9, 200)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    profile = batchstat.profile(path, prompt_column="prompt", completion_column="completion")
    config = saved(tmp_path, {"max_length": 12, "per_device_train_batch_size": 1})
    report = batchstat.preflight(config, profile)
    assert (sum(report.samples.dropped.values()), report.samples.profile.records.tolist()) == (
        1,
        [0, 1],
    )
    assert report.steps_per_epoch == 2
    everything = saved(tmp_path, {"max_length": 12, "completion_only_loss": False}, "all.json")
    assert not batchstat.preflight(everything, profile).samples.dropped
    packed = saved(tmp_path, {"max_length": 12, "packing": True}, "packed.json")
    assert not batchstat.preflight(packed, profile).samples.dropped
    none = write_jsonl(tmp_path / "none.jsonl", rows[2:])
    profile = batchstat.profile(none, prompt_column="prompt", completion_column="completion")
    with pytest.raises(batchstat.InputError, match="no sample has a trained token within"):
        batchstat.preflight(config, profile)


def test_a_change_is_what_the_changed_file_gives(tmp_path, texts):
    report = batchstat.preflight(saved(tmp_path, SFT), texts)
    changes = report.changes
    found = filter(None, (*changes.ranked, *changes.others, changes.packed))
    by_keys = [change for change in found if change.keys is not None]
    assert {"packing": True} in [change.keys for change in by_keys]
    for change in by_keys:
        changed = saved(tmp_path, {**SFT, **change.keys}, "changed.json")
        again = batchstat.preflight(changed, texts)
        assert again.simulation.row.counts == change.row.counts
        before, after = report.simulation.row.counts, again.simulation.row.counts
        assert change.speed_up == before.compute / after.compute


def test_the_ranks_that_accelerate_starts(tmp_path, texts):
    launched = {**SFT, "num_processes": 4, "accelerate_config": "zero2", "env": {"A": "b"}}
    config = saved(tmp_path, launched)
    report = batchstat.preflight(config, texts)
    assert report.simulation.basis.world_size == 4
    assert batchstat.preflight(config, texts, world_size=2).simulation.basis.world_size == 2
    assert "env" in report.setup.unused
    assert not any("accelerate_config" in each.message for each in report.setup.warnings)
    del launched["num_processes"]
    setup = read_setup(saved(tmp_path, launched))
    assert "config/unread-file" in {each.id for each in setup.warnings}


def naming(*files: object) -> list[dict[str, object]]:
    return [{"path": "json", "data_files": str(file)} for file in files]


def test_the_corpus_of_the_configuration(tmp_path):
    with pytest.raises(batchstat.InputError, match="names no corpus: pass its files as CORPUS"):
        batchstat.preflight(saved(tmp_path, SFT))
    chats = saved(tmp_path, {**SFT, "datasets": naming(SAMPLE_DATA / "conversations.jsonl")})
    assert len(batchstat.preflight(chats).profile) == 60
    found = saved(tmp_path, {**SFT, "datasets": naming("a.jsonl", "b.jsonl")})
    assert read_setup(found).corpus.reading["corpus"] == ("a.jsonl", "b.jsonl")


@in_turn(
    ("keys", "message"),
    [
        ({"dataset_name": "trl-lib/Capybara"}, "'trl-lib/Capybara', whose split 'train'"),
        ({"datasets": [{"path": "json", "data_files": "a", "columns": ["b"]}]}, "with columns="),
        ({"datasets": [{"path": "json", "data_files": "a", "split": "train[:9]"}]}, "with split="),
        (
            {"datasets": [{"path": "who/what", "data_files": "a.jsonl"}]},
            "with path='who/what', which is not loaded here: only json",
        ),
        ({"datasets": [{"path": "json"}]}, "with data_files=None, not read here"),
        ({"datasets": [{"path": "json", "data_files": ["a.jsonl", 1]}]}, "not read here"),
        ({"datasets": ["a.jsonl"]}, "not read here"),
    ],
)
def test_a_dataset_that_is_not_read_can_be_passed(tmp_path, texts, keys, message):
    config = saved(tmp_path, {**SFT, **keys})
    with pytest.raises(batchstat.InputError, match=message):
        batchstat.preflight(config)
    assert batchstat.preflight(config, texts).steps_per_epoch


@pytest.mark.parametrize(
    ("values", "rows", "message"),
    [
        (ANSWERS, {"prompt": "a", "completion": "b"}, "for which alone assistant_only_loss=true"),
        (ANSWERS, {"text": "a"}, "for which alone assistant_only_loss=true"),
        (ANSWERS, {"messages": 3}, "messages"),
    ],
)
def test_a_corpus_without_the_columns_of_the_trainer(tmp_path, values, rows, message):
    file = write_jsonl(tmp_path / "rows.jsonl", [rows] * 3)
    setup = read_setup(saved(tmp_path, values))
    with pytest.raises(batchstat.InputError, match=message) as caught:
        batchstat.profile(**profile_keywords(setup, corpus=file))
    assert ("refuses" in str(caught.value)) == ("refuses" in message)


def test_a_file_that_is_gone_is_said_to_be_of_the_configuration(tmp_path):
    values = {**SFT, "datasets": naming("gone.jsonl")}
    with pytest.raises(batchstat.InputError) as caught:
        profile_keywords(read_setup(saved(tmp_path, values)))
    message = str(caught.value)
    assert message.startswith("no such file: gone.")
    assert f"which {(tmp_path / 'config.json').as_posix()} names in datasets, from the" in message
    assert message.endswith("or pass its files as CORPUS")


def test_exit_codes_and_streams(run, tmp_path):
    config = saved(tmp_path, {**SFT, "datasets": naming("texts.jsonl")})
    write_jsonl(tmp_path / "texts.jsonl", [{"text": "word " * i} for i in range(1, 30)])
    done = run("preflight", config.name, "--world-size", 2, "--details")
    assert done.returncode == 0
    assert "result   " in done.stdout
    assert "key that decides" in done.stdout
    assert "loss     ok: every trained token counts the same" in done.stdout
    document = json.loads(run("preflight", config.name, "--json").stdout)
    assert document["strategy"]["trained"]["token_weight"]["spread"] == 1
    assert document["config"]["keys"]["max_length"] == 64
    assert document["schedule"]["total_steps"] == 3 * document["schedule"]["steps_per_epoch"]
    assert json.loads((tmp_path / "batchstat-results/preflight.json").read_text()) == document
    nothing = saved(tmp_path, {**SFT, "num_train_epochs": 0}, "nothing.json")
    document = json.loads(run("preflight", nothing.name, "texts.jsonl", "--json").stdout)
    assert document["schedule"]["total_steps"] == 0
    assert run("preflight").returncode == 2
    assert run("preflight", "missing.yaml").returncode == 3
    assert run("preflight", saved(tmp_path, {"seed": "x"}, "b.json").name).returncode == 2
    piped = run("preflight", config.name, "-", stdin=b"{}")
    assert piped.returncode == 3
    assert "which columns standard input has is not known" in piped.stderr
    gone = saved(tmp_path, {**SFT, "dataset_name": "who/what"}, "gone.json")
    assert run("preflight", gone.name).returncode == 3


@pytest.mark.parametrize(("ranks", "accumulation"), [(1, 3), (4, 1), (3, 2)])
def test_weights_where_all_tokens_are_trained(tmp_path, ranks, accumulation):
    rows = [{"text": "word " * (1 + i * i % 41)} for i in range(2 * ranks * accumulation * 5)]
    profile = batchstat.profile(write_jsonl(tmp_path / "texts.jsonl", rows))
    values = {**SFT, "max_length": 30, "train_sampling_strategy": "sequential"}
    values |= {"gradient_accumulation_steps": accumulation}
    own = {**values, "average_tokens_across_devices": False}
    report = batchstat.preflight(saved(tmp_path, own), profile, world_size=ranks)
    # In the file's sequence, batches of 2 samples go to the ranks in turn.
    of_rank: dict[tuple[int, int], int] = {}
    for i, length in enumerate(profile.lengths.tolist()):
        batch = i // 2
        place = (batch // (ranks * accumulation), batch % ranks)
        # Labels are shifted: the first token has none.
        of_rank[place] = of_rank.get(place, 0) + min(length, 30) - 1
    weights = []
    for (step, _), tokens in of_rank.items():
        in_step = sum(found for (other, _), found in of_rank.items() if other == step)
        weights += [in_step / tokens / ranks] * tokens
    weights.sort()
    found = report.simulation.row.trained
    assert (found.tokens, found.untrained_samples) == (len(weights), 0)
    for value, percent in ((found.weights.p5, 5), (found.weights.p95, 95)):
        assert value == pytest.approx(weights[-(-len(weights) * percent // 100) - 1])
    assert (found.weights.spread > 1) == (ranks > 1)
    exact = batchstat.preflight(saved(tmp_path, values), profile, world_size=ranks)
    assert exact.simulation.row.trained.weights.spread == 1


@pytest.mark.parametrize(
    ("values", "columns", "loss"),
    [
        (SFT, {"text_column": "text"}, "trl"),
        (SFT, {"messages_column": "messages"}, "trl"),
        (
            {**SFT, "completion_only_loss": False},
            {"prompt_column": "text", "completion_column": "end"},
            "trl",
        ),
        (
            {"seed": 1, "average_tokens_across_devices": False},
            {"text_column": "text"},
            "num-items-per-rank",
        ),
    ],
)
def test_a_configuration_with_a_loss_has_weights(tmp_path, values, columns, loss):
    rows = [
        {"text": text, "end": "end", "messages": [{"role": "user", "content": text}]}
        for text in ("word " * (5 + i % 7) for i in range(40))
    ]
    profile = batchstat.profile(write_jsonl(tmp_path / "a.jsonl", rows), **columns)
    report = batchstat.preflight(saved(tmp_path, values), profile, world_size=2)
    assert report.simulation.basis.loss == loss
    assert report.simulation.row.trained.weights.p5 > 0
    assert not any("taken as trained" in each.message for each in report.warnings)


def test_lengths_do_not_say_which_tokens_are_trained(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"n": 3 + i} for i in range(20)])
    report = batchstat.preflight(saved(tmp_path, SFT), batchstat.profile(path, length_column="n"))
    assert any("every token is taken as trained" in each.message for each in report.warnings)
    assert report.simulation.row.trained.tokens == sum(2 + i for i in range(20))


def test_what_transformers_writes_in_place_of_values_is_none(tmp_path):
    """`to_json_string` hides tokens, also those that are null."""
    setup = read_setup(saved(tmp_path, {**SFT, "eos_token": "<EOS_TOKEN>"}))
    assert setup.corpus.appends_eos
    assert "append" not in setup.corpus.reading
    setup = read_setup(saved(tmp_path, {**SFT, "pad_to_multiple_of": "None"}))
    assert "pad_to_multiple_of" not in setup.batching.settings


def test_a_chat_template_in_a_tokenizers_folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "chat_template.jinja").write_text("{{ messages }}")
    setup = read_setup(saved(tmp_path, {**SFT, "chat_template_path": str(tmp_path / "own")}))
    assert setup.corpus.reading["chat_template"] == tmp_path / "own" / "chat_template.jinja"


def test_lines_of_plain_text_are_trls_texts(tmp_path):
    (tmp_path / "a.txt").write_text("a line\nanother one\n")
    named = {"datasets": [{"path": "text", "data_files": str(tmp_path / "a.txt")}]}
    found = profile_keywords(read_setup(saved(tmp_path, SFT | named)))
    assert len(batchstat.profile(**found)) == 2


def test_what_is_for_texts_is_not_for_token_ids(tmp_path):
    """A configuration has a tokenizer and a token that ends texts, whatever its corpus holds."""
    path = write_jsonl(tmp_path / "ids.jsonl", [{"input_ids": [1] * n} for n in range(2, 9)])
    more = {"model_name_or_path": "builtin", "eos_token": "<|im_end|>"}
    found = profile_keywords(read_setup(saved(tmp_path, SFT | more)), corpus=(str(path),))
    assert not {"tokenizer", "append"} & set(found)
    assert batchstat.profile(**found).lengths.tolist() == [*range(2, 9)]


def test_the_tokens_of_a_tokenizer_whose_template_is_taken(tmp_path):
    """TRL adds them, which makes other tokens of the template."""
    needs("transformers")
    from tokenizers import AddedToken
    from transformers import AutoTokenizer

    save_tokenizer(tmp_path / "base")
    other = AutoTokenizer.from_pretrained(tmp_path / "base")
    other.save_pretrained(tmp_path / "same")
    other.add_tokens([AddedToken("<|own|>", special=True)])
    other.save_pretrained(tmp_path / "other")
    corpus = (str(SAMPLE_DATA / "conversations.jsonl"),)
    for name, is_refused in (("same", False), ("other", True), ("some/repository", True)):
        path = name if "/" in name else str(tmp_path / name)
        values = {"model_name_or_path": str(tmp_path / "base"), "chat_template_path": path}
        setup = read_setup(saved(tmp_path, SFT | values))
        if is_refused:
            message = "is not loaded here" if "/" in name else r"which lacks '<\|own\|>': pass one"
            with pytest.raises(batchstat.InputError, match=message):
                profile_keywords(setup, corpus=corpus)
        else:
            assert "chat_template" in profile_keywords(setup, corpus=corpus)


def test_a_file_is_plain_text_only_by_its_name(tmp_path):
    path = write_jsonl(tmp_path / "rows.data", [{"messages": CHAT}])
    setup = read_setup(saved(tmp_path, SFT))
    warned = pytest.warns(UserWarning, match="no format has the ending .data")
    with warned, pytest.raises(batchstat.InputError, match="plain text"):
        batchstat.profile(**profile_keywords(setup, corpus=str(path)))
    found = profile_keywords(setup, corpus=str(path), input_format="jsonl")
    assert found["messages_column"] == "messages"
    named = {"datasets": [{"path": "json", "data_files": str(path)}]}
    setup = read_setup(saved(tmp_path, SFT | named))
    assert "whose ending is not of json" in setup.corpus.unreadable


def test_a_report_is_of_the_whole_training(tmp_path):
    """Steps that are no epoch, and several: what they see, by the Trainer's batches in a loop."""
    lengths = np.random.default_rng(0).integers(5, 64, 331)
    profile = batchstat.profile(
        write_jsonl(tmp_path / "a.jsonl", [{"input_ids": [7] * n} for n in lengths.tolist()]),
        tokens_column="input_ids",
    )
    values = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    for steps in (1, 7, 18, 19, 57):
        config = saved(tmp_path, {**values, "max_steps": steps})
        report = batchstat.preflight(config, profile, world_size=3)
        seen = set()
        for rank in range(3):
            sampler = batchstat.BatchSampler(
                lengths, "hf-trainer:batch_size=3", rank=rank, world_size=3, seed=42
            )
            batches = list(sampler)
            seen |= {i for batch in batches[: 2 * steps] for i in batch}
        assert report.trained_samples == len(seen)
        assert report.epochs == pytest.approx(steps / 19)
        warned = [each.message for each in report.warnings if each.id == "schedule/part-of-epoch"]
        assert len(warned) == (steps < 19)
        assert all(f"computes {len(seen)} of 331 samples, and never" in each for each in warned)
    counts = report.simulation.row.counts
    assert report.samples_per_step == counts.samples / 19
    assert report.tokens_per_step == counts.real_tokens / 19


@pytest.mark.parametrize("packing", [{}, {"packing_strategy": "wrapped"}])
def test_the_number_of_examples_is_that_of_packed_rows(tmp_path, packing):
    """What the trainer logs: with one row per batch, the number of batches."""
    rows = [{"input_ids": [7] * n} for n in range(3, 60)]
    profile = batchstat.profile(write_jsonl(tmp_path / "a.jsonl", rows), tokens_column="input_ids")
    own = {"max_length": 64, "packing": True, **packing}
    alone, several = (
        batchstat.preflight(
            saved(tmp_path, {**own, "per_device_train_batch_size": size}), profile, world_size=ranks
        )
        for size, ranks in ((1, 1), (4, 3))
    )
    assert alone.num_examples == alone.simulation.row.counts.batches
    assert several.num_examples == alone.num_examples < len(rows)
    plain = saved(tmp_path, {"max_length": 64})
    assert batchstat.preflight(plain, profile).num_examples is None


def test_even_batches_are_read_by_truth(tmp_path, texts):
    """As accelerate does."""
    found = {}
    for even in (0, False, 1, True):
        values = {"per_device_train_batch_size": 7, "accelerator_config": {"even_batches": even}}
        report = batchstat.preflight(saved(tmp_path, values), texts, world_size=2)
        counts = report.simulation.row.counts
        found[repr(even)] = (counts.batches, counts.duplicated_samples)
    assert found["0"] == found["False"] == (3, 0)
    assert found["1"] == found["True"] == (4, 8)


def test_an_entry_of_datasets_whose_path_is_a_list(tmp_path):
    config = saved(tmp_path, {**SFT, "datasets": [{"path": ["json"]}]})
    with pytest.raises(batchstat.InputError, match=r"datasets with path=\['json'\], which is not"):
        batchstat.preflight(config)


def shared(folder: Path, *roles: str) -> Path:
    """Chats as ShareGPT writes them."""
    chat = [{"from": role, "value": "word word"} for role in roles]
    return write_jsonl(folder / "chats.jsonl", [{"conversations": chat}] * 3)


def test_trl_keeps_the_roles_of_sharegpt(tmp_path, run):
    """So that a template that knows other names renders nothing of them."""
    template = tmp_path / "t.jinja"
    said = "{{ m.role }} {{ m.content }}"
    template.write_text(
        "{% for m in messages %}{% if m.role != 'human' %}" + said + "{% endif %}{% endfor %}"
    )
    config = saved(tmp_path, {**SFT, "chat_template_path": str(template)})
    result = run("preflight", config, shared(tmp_path, "human", "gpt"))
    assert result.returncode == 0, result.stderr
    assert "the chat template ignores other messages of 3 chats" in result.stderr
    found = batchstat.preflight(config, count(config, tmp_path)).profile
    plain = batchstat.profile([write_jsonl(tmp_path / "t.jsonl", [{"text": "gpt word word"}])])
    assert found.lengths.tolist() == plain.lengths.tolist() * 3
    result = run("preflight", config, shared(tmp_path, "human", "human"))
    assert result.returncode == 3
    assert "renders none of the messages of 3 chats" in result.stderr


def count(config: Path, folder: Path) -> batchstat.Profile:
    path = str(folder / "chats.jsonl")
    return batchstat.profile(**profile_keywords(read_setup(config), corpus=(path,)))


def test_trl_stops_at_a_chat_without_an_answer(tmp_path):
    config = saved(tmp_path, {"max_length": 64, "assistant_only_loss": True})
    rows = [{"messages": CHAT}, {"messages": CHAT[:1]}, {"messages": CHAT}]
    write_jsonl(tmp_path / "chats.jsonl", rows)
    with pytest.raises(batchstat.InputError, match="1 chat of 3 without a token of an assistant"):
        batchstat.preflight(config, count(config, tmp_path))


MARKED = (
    "{% for m in messages %}{{ m.role }} {% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}{% endgeneration %} {% else %}{{ m.content }} {% endif %}{% endfor %}"
)


def answering(folder: Path, template: str) -> Path:
    """A configuration with assistant_only_loss, for a corpus of two chats."""
    (folder / "t.jinja").write_text(template)
    write_jsonl(folder / "chats.jsonl", [{"messages": CHAT}] * 2)
    return saved(folder, ANSWERS | {"chat_template_path": str(folder / "t.jinja")})


def test_a_template_with_marks_is_taken_as_it_is(tmp_path):
    config = answering(tmp_path, MARKED)
    report = batchstat.preflight(config, count(config, tmp_path))
    assert report.profile.trained_tokens == 2
    assert not any("generation" in each.message for each in report.warnings)


@pytest.mark.parametrize("template", [MARKED.replace("{% ", "{%+ "), "{{ messages[0].content }}"])
def test_a_template_without_marks_needs_that_of_trl(tmp_path, monkeypatch, template):
    """TRL does not see marks with a plus, which transformers applies."""
    config = answering(tmp_path, template)
    monkeypatch.setattr(sft_templates, "_templates_of_trl", lambda: None)
    with pytest.raises(
        batchstat.InputError, match="but is not installed here: install trl, or name"
    ):
        count(config, tmp_path)
    own = tmp_path / "chat_templates"
    own.mkdir()
    (own / "other.jinja").write_text("x")
    (own / "other_training.jinja").write_text("y")
    monkeypatch.setattr(sft_templates, "_templates_of_trl", lambda: own)
    with pytest.raises(batchstat.InputError, match="none of those that TRL replaces.* it stops"):
        count(config, tmp_path)
    (own / "known.jinja").write_text(template)
    (own / "known_training.jinja").write_text("more words than before " + MARKED)
    profile = count(config, tmp_path)
    assert (profile.lengths.tolist(), profile.trained_tokens) == ([9, 9], 2)


SHARED = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]


@in_turn(
    ("row", "message"),
    [
        ({"conversations": CHAT}, "'conversations': message 0 has no from and value"),
        ({"messages": SHARED}, "'messages': message 0 has no role .has: from, value"),
        ({"prompt": SHARED[:1], "completion": SHARED[1:]}, "'prompt': message 0 has no role"),
        ({"messages": PARTS}, "cannot count it: can only concatenate str"),
        ({"messages": CHAT, "prompt": "a"}, "has the column 'prompt'; TRL takes it for the begin"),
        ({"text": "a", "prompt": "a"}, "has the column 'prompt'; TRL takes it for the beginning"),
        ({"messages": CHAT, "completion": "a"}, "has the column 'completion'; TRL looks at it or"),
        (
            {"prompt": CHAT[:1], "completion": CHAT[1:], "messages": "a"},
            "has the column 'messages'; TRL looks at it or at completion",
        ),
        ({"text": "a", "chat_template_kwargs": {}}, "has the column 'chat_template_kwargs'; TRL"),
        ({"text": "a", "images": []}, "has the column 'images'; TRL takes it for images"),
        ({"text": "a", "labels": [1]}, "has the column 'labels'; TRL takes it for that of token"),
        ({"messages": CHAT, "chat_template_kwargs": None}, "'chat_template_kwargs' is None where"),
    ],
)
def test_what_trl_stops_at_is_refused(tmp_path, row, message):
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.role + m.content }}{% endfor %}")
    config = saved(tmp_path, {**SFT, "chat_template_path": str(template)})
    write_jsonl(tmp_path / "chats.jsonl", [row] * 3)
    with pytest.raises(batchstat.InputError, match=message):
        count(config, tmp_path)


def test_rows_that_are_packed_already_are_refused(tmp_path):
    """The collator of padding_free takes samples apart by this column."""
    row = {"input_ids": [5, 6, 7], "seq_lengths": [1, 2]}
    write_jsonl(tmp_path / "chats.jsonl", [row] * 3)
    assert len(count(saved(tmp_path, SFT), tmp_path)) == 3
    config = saved(tmp_path, {"max_length": None, "padding_free": True})
    with pytest.raises(batchstat.InputError, match="'seq_lengths'; TRL takes it for the lengths"):
        count(config, tmp_path)


def test_the_first_columns_that_trl_can_take_are_read(tmp_path):
    """Of conversations that are no chats, it takes the texts beside them."""
    config = saved(tmp_path, SFT)
    for row, column in (
        ({"conversations": CHAT, "text": "a"}, ("text",)),
        ({"conversations": SHARED, "messages": CHAT}, "conversations"),
        ({"conversations": CHAT, "messages": CHAT}, "messages"),
    ):
        write_jsonl(tmp_path / "chats.jsonl", [row])
        found = profile_keywords(read_setup(config), corpus=str(tmp_path / "chats.jsonl"))
        assert column in (found.get("text_column"), found.get("messages_column"))


def test_a_column_that_is_named_is_read_as_trl_reads_it(tmp_path):
    config = answering(tmp_path, MARKED)
    path = str(tmp_path / "chats.jsonl")
    own = profile_keywords(read_setup(config), corpus=path)
    named = {"messages_column": "messages", "label_column": "x"}
    assert profile_keywords(read_setup(config), corpus=path, **named) == {**own, **named}


def test_completions_get_no_end_beside_texts(tmp_path):
    """TRL appends the token that ends a sequence to one column alone."""
    needs("transformers")
    values = {**SFT, "model_name_or_path": str(save_tokenizer(tmp_path / "tokenizer"))}
    config = saved(tmp_path, values)
    lengths = []
    for row in (
        {"prompt": "a", "completion": " b"},
        {"prompt": "a", "completion": " b", "text": ""},
    ):
        write_jsonl(tmp_path / "chats.jsonl", [row])
        lengths += count(config, tmp_path).lengths.tolist()
    assert lengths == [3, 2]


def test_samples_without_tokens_are_dropped(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}")
    config = saved(tmp_path, {**SFT, "chat_template_path": str(template)})
    write_jsonl(tmp_path / "chats.jsonl", [{"messages": CHAT}, {"messages": CHAT[1:]}])
    report = batchstat.preflight(config, count(config, tmp_path))
    assert report.samples.dropped == {"without tokens": 1}
    assert len(report.samples.profile) == 1


@pytest.mark.torch
@pytest.mark.parametrize("seed", [2**31, 2**32 - 1])
def test_seeds_of_32_bits(tmp_path, texts, seed):
    torch = needs("torch")
    config = saved(tmp_path, {"seed": seed, "per_device_train_batch_size": 20})
    report = batchstat.preflight(config, texts)
    [batch] = batchstat.BatchSampler(texts, report.setup.batching.strategy, seed=seed).batches()
    drawn = torch.randperm(20, generator=torch.Generator().manual_seed(seed)).tolist()
    assert batch.records == drawn
    with pytest.raises(batchstat.OptionError, match="must be between 0 and 4,294,967,295"):
        batchstat.preflight(saved(tmp_path, {"seed": 2**32}), texts)


def test_rows_whose_samples_see_each_other_are_said(tmp_path, texts):
    """The first token of each of their samples is trained too, but for that of a row."""
    wrapped = {**SFT, "packing": True, "packing_strategy": "wrapped"}
    report = batchstat.preflight(saved(tmp_path, wrapped), texts)
    assert any("those of a row see each other" in each.message for each in report.warnings)
    counts = report.simulation.row
    assert counts.trained is not None
    assert counts.trained.tokens == counts.counts.real_tokens - counts.counts.rows
    apart = batchstat.preflight(saved(tmp_path, {**SFT, "packing": True}), texts)
    assert not any("see each other" in each.message for each in apart.warnings)


def test_samples_that_are_split_are_counted_whole(tmp_path):
    """A part may have no trained token where its sample has some."""
    masks = [[0] * 9 + [1] * 3, [0] * 4 + [1] * 8, [0] * 11]
    rows = [{"input_ids": [5] * len(mask), "completion_mask": mask} for mask in masks]
    values = {"max_length": 4, "packing": True, "packing_strategy": "bfd_split"}
    config = saved(tmp_path, values | {"completion_only_loss": True})
    file = write_jsonl(tmp_path / "ids.jsonl", rows)
    profile = batchstat.profile(**profile_keywords(read_setup(config), corpus=file))
    trained = batchstat.preflight(config, profile).simulation.row.trained
    assert trained is not None
    parts = [mask[at : at + 4] for mask in masks for at in range(0, len(mask), 4)]
    assert trained.tokens == sum(sum(part[1:]) for part in parts)
    assert trained.untrained_samples == 1
