"""`preflight` of LLaMA-Factory's arguments: what is refused; its batches are in integration."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.corpus import profile_keywords
from conftest import needs, write_jsonl
from tables import in_turn
from trainers import save_tokenizer

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

RENDERED = Path(batchstat.__file__).parent / "trainers" / "llama_factory" / "templates"
BASE = {"stage": "sft", "do_train": True, "finetuning_type": "lora", "cutoff_len": 32}
ALPACA = [{"instruction": "word " * n, "input": "", "output": "end " * n} for n in range(1, 13)]
CHATS = [
    {"messages": [{"role": role, "content": "word " * n} for role in ("user", "assistant")]}
    for n in range(1, 13)
]


def saved(folder: Path, values: dict[str, Any], name: str = "config.json") -> Path:
    (folder / name).write_text(json.dumps({**BASE, **values}))
    return folder / name


def with_data(folder: Path, entry: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> Path:
    """A configuration with one data set, of these rows."""
    (folder / "a.json").write_text(json.dumps(rows))
    (folder / "dataset_info.json").write_text(json.dumps({"a": entry}))
    data = {"dataset": "a", "dataset_dir": str(folder), "template": "qwen3_nothink"}
    return saved(folder, {**data, **more})


@pytest.fixture
def chats(tmp_path) -> batchstat.Profile:
    """Chats with answers as long as their prompts."""
    path = write_jsonl(tmp_path / "chats.jsonl", CHATS)
    template = tmp_path / "chat.jinja"
    template.write_text(
        "{% for message in messages %}{% if message.role == 'assistant' %}"
        "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}"
        "{% else %}{{ message.content }}<|im_start|>{% endif %}{% endfor %}"
    )
    needs("transformers")
    return batchstat.profile(
        path, messages_column="messages", assistant_only_loss=True, chat_template=template
    )


@in_turn(
    ("values", "message"),
    [
        ({"packin": True}, "unknown key 'packin': did you mean"),
        ({"stage": "dpo"}, "stage='dpo' is not modelled"),
        ({"do_train": False}, "do_train=false trains nothing"),
        ({"streaming": True}, "streaming=True is not modelled: remove it"),
        ({"tokenized_path": "saved"}, "tokenized_path='saved' is not modelled: pass the files"),
        ({"mix_strategy": "interleave_under"}, "mix_strategy='interleave_under' is not modelled"),
        ({"add_tokens": "<a>,<b>"}, "add_tokens='<a>,<b>' is not modelled: save the tokenizer"),
        ({"ignore_pad_token_for_loss": False}, "ignore_pad_token_for_loss=False is not modelled"),
        ({"mask_history": True, "train_on_prompt": True}, "mask_history contradicts"),
        ({"val_size": 0.1, "eval_dataset": "b"}, "val_size contradicts eval_dataset"),
        ({"max_steps": 0}, "max_steps=0 is not modelled: set 1 or more, or -1 for epochs"),
        ({"val_size": 1.0}, "val_size=1.0 is neither a share nor a number: set 1 or more"),
        ({"packing": True, "disable_shuffling": True}, "packing with disable_shuffling is not"),
        ({"neat_packing": True, "flash_attn": "fa3"}, "flash_attn=fa3 is not modelled"),
        ({"neat_packing": True, "flash_attn": "fa2"}, "per_device_train_batch_size=8: set it to 1"),
        ({"warmup_ratio": 0.1, "warmup_steps": 5}, "warmup_ratio and warmup_steps=5.*remove one"),
        ({"template": "qwen2_vl"}, "template=qwen2_vl is not modelled: it is unknown, adds images"),
        ({"template": "glm4"}, "template=glm4 is not modelled.*efficient_eos"),
        ({"template": "gemma3"}, "template=gemma3 is not modelled.*efficient_eos"),
        (
            {"template": "gemma2", "mask_history": True},
            "template=gemma2 with mask_history=true is not modelled: remove one",
        ),
        (
            {"template": "gemma2", "train_on_prompt": True},
            "template=gemma2 contradicts train_on_prompt=true, which LLaMA-Factory refuses",
        ),
        (
            {"template": "qwen3", "enable_thinking": False},
            "template=qwen3 with enable_thinking=False is not modelled: remove enable_thinking",
        ),
        (
            {"template": "deepseekr1", "mask_history": True},
            "template=deepseekr1 with mask_history=True is not modelled: remove mask_history",
        ),
    ],
)
def test_a_configuration_that_is_not_modelled(tmp_path, chats, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        batchstat.preflight(saved(tmp_path, values), chats, framework="llama-factory")


@in_turn(
    ("entry", "message"),
    [
        ({"hf_hub_url": "who/what"}, "is not a file alone .it has hf_hub_url"),
        ({"file_name": "a.json", "ranking": True}, "is not a file alone .it has ranking"),
        ({"file_name": "a.json", "num_samples": 9}, "is not a file alone .it has num_samples"),
        ({"file_name": "b.json"}, "b.json, which is not a file"),
        ({"file_name": "a.csv"}, "does not end in .json or .jsonl"),
        ({"file_name": "a.json", "columns": {"prompt": "q", "response": "a"}}, "other columns"),
        ({"file_name": "a.json", "formatting": "openai"}, "formatting='openai', to which"),
        (
            {"file_name": "a.json", "formatting": "sharegpt", "columns": {"tools": "tools"}},
            "other columns than messages",
        ),
        ({"file_name": "a.json", "formatting": "sharegpt", "tags": {"role_tag": "r"}}, "has tags"),
        ("a.json", "is not in dataset_info.json"),
    ],
)
def test_a_data_set_that_is_not_read_can_be_passed(tmp_path, chats, entry, message):
    config = with_data(tmp_path, entry, ALPACA)
    with pytest.raises(batchstat.InputError, match=f"{message}.*pass the chats .* as CORPUS"):
        batchstat.preflight(config)
    assert batchstat.preflight(config, chats).steps_per_epoch


@pytest.mark.parametrize("columns", [{"prompt": "instruction", "query": "context"}, {"tools": "t"}])
def test_a_corpus_of_other_columns_is_not_read_as_alpaca(tmp_path, columns):
    """As what would be counted is not what LLaMA-Factory makes of it."""
    config = with_data(tmp_path, {"hf_hub_url": "who/what", "columns": columns}, ALPACA)
    corpus = tmp_path / "a.json"
    with pytest.raises(batchstat.InputError, match="the data set 'a' has other columns: pass the"):
        profile_keywords(read_setup(config), corpus=corpus)
    chats = write_jsonl(tmp_path / "b.jsonl", [{"messages": [{"role": "user", "content": "b"}]}])
    assert "messages_column" in profile_keywords(read_setup(config), corpus=chats)


@pytest.mark.parametrize("key", ["system", "tools"])
def test_a_column_that_begins_chats_is_refused(tmp_path, key):
    needs("transformers")
    entry = {"hf_hub_url": "who/what", "formatting": "sharegpt", "columns": {key: "more"}}
    config = with_data(tmp_path, entry, ALPACA)
    rows = [{**chat, "more": "Be brief."} for chat in CHATS]
    corpus = write_jsonl(tmp_path / "b.jsonl", rows)
    with pytest.raises(batchstat.InputError, match="has the column 'more'; LLaMA-Factory begins"):
        profile_keywords(read_setup(config), corpus=corpus)


def test_dataset_info_that_is_missing(tmp_path):
    config = saved(tmp_path, {"dataset": "a", "dataset_dir": str(tmp_path)})
    with pytest.raises(batchstat.InputError, match=r"dataset_info.json cannot be read \(No such"):
        batchstat.preflight(config)
    with pytest.raises(batchstat.InputError, match="names no dataset"):
        batchstat.preflight(saved(tmp_path, {}), framework="llama-factory")


def test_alpaca_is_read_as_chats(tmp_path):
    needs("transformers")
    config = with_data(tmp_path, {"file_name": "a.json"}, ALPACA, max_samples=9, val_size=2)
    report = batchstat.preflight(config, max_length=24)
    assert report.setup.framework == "llama-factory"
    assert (len(report.profile), len(report.samples.profile)) == (12, 7)
    assert report.samples.dropped == {"beyond max_samples": 3}
    assert report.samples.held_out == 2
    assert report.samples.lost.truncated_samples > 0
    assert report.simulation.row.counts.truncated_samples == report.samples.lost.truncated_samples
    assert report.samples.profile.stats.max == 24


TEMPLATES = {
    "broken": "{{ raise_exception('no system') }}",
    "merged": "{% for message in messages %}{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}{% endgeneration %}"
    "{% else %}{{ message.content }} {% endif %}{% endfor %}",
}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("vicuna", "has template=vicuna.*pass what it renders with --chat-template"),
        ("broken", "does not render a chat of user and assistant"),
        ("merged", "has marks, or tokens that merge, where an answer begins or ends"),
        (None, "has marks, or tokens that merge.*pass a template with"),
        ("llama3", "no token '<.start_header_id.>'.*save the tokenizer with it"),
    ],
)
def test_a_template_that_the_tokenizer_does_not_go_with(tmp_path, template, message):
    needs("transformers")
    passed = {}
    if template in TEMPLATES:
        path = tmp_path / "template.jinja"
        path.write_text(TEMPLATES[template])
        passed, template = {"chat_template": path}, "vicuna"
    config = with_data(tmp_path, {"file_name": "a.json"}, ALPACA, template=template)
    with pytest.raises(batchstat.InputError, match=message):
        profile_keywords(read_setup(config), **passed)


def test_chats_with_tools_and_chats_out_of_turn(tmp_path):
    needs("transformers")
    entry = {
        "file_name": "a.json",
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
    }
    twice = {"messages": CHATS[0]["messages"] * 2}
    unanswered = {"messages": CHATS[0]["messages"][:1]}
    rows = [unanswered, *CHATS, twice, {"messages": twice["messages"][:3]}]
    report = batchstat.preflight(with_data(tmp_path, entry, rows))
    assert report.samples.dropped == {"whose turns are not user and assistant": 2}
    assert report.samples.profile.records.tolist() == list(range(1, 14))
    packed = with_data(tmp_path, entry, rows, packing=True, preprocessing_num_workers=2)
    with pytest.raises(batchstat.InputError, match="packing with samples that LLaMA-Factory drops"):
        batchstat.preflight(packed)
    tool = {"messages": [*CHATS[0]["messages"], {"role": "tool", "content": "1"}]}
    with pytest.raises(batchstat.InputError, match="a.json, record 1: a chat has tools"):
        batchstat.preflight(with_data(tmp_path, entry, [*CHATS[:1], tool]))


def test_answers_that_begin_with_whitespace_are_named(tmp_path):
    needs("transformers")
    rows = [ALPACA[0], {**ALPACA[1], "output": "\n\nend"}, {**ALPACA[2], "output": " end"}]
    report = batchstat.preflight(with_data(tmp_path, {"file_name": "a.json"}, rows))
    messages = [warning.message for warning in report.warnings]
    assert any(m.startswith("2 chats with an answer that begins with") for m in messages)
    report = batchstat.preflight(with_data(tmp_path, {"file_name": "a.json"}, ALPACA))
    assert not any("whitespace" in warning.message for warning in report.warnings)


def test_token_ids_need_no_template(tmp_path):
    rows = [{"input_ids": [1] * n, "labels": [-100] * (n - 3) + [1] * 3} for n in range(4, 50)]
    path = write_jsonl(tmp_path / "ids.jsonl", rows)
    profile = batchstat.profile(path, tokens_column="input_ids", trained_column="labels")
    report = batchstat.preflight(saved(tmp_path, {"template": "vicuna"}), profile)
    lengths = report.samples.profile.lengths.tolist()
    assert lengths == [min(n, 32) for n in range(4, 50)]
    # A short answer stays whole, and its prompt is shortened.
    assert report.samples.profile.trained.counts().tolist() == [3] * 46
    untrained = batchstat.profile(path, tokens_column="input_ids")
    with pytest.raises(batchstat.InputError, match="unknown which tokens are answers"):
        batchstat.preflight(saved(tmp_path, {}), untrained, framework="llama-factory")
    rows = [{"input_ids": [1, 2, 3], "labels": [-100, 2, -100]}]
    odd = write_jsonl(tmp_path / "odd.jsonl", rows)
    odd_profile = batchstat.profile(odd, tokens_column="input_ids", trained_column="labels")
    with pytest.raises(batchstat.InputError, match="record 0 has tokens after its last answer"):
        batchstat.preflight(saved(tmp_path, {}), odd_profile, framework="llama-factory")


def test_a_loss_of_its_own_is_not_weighed(tmp_path, chats):
    report = batchstat.preflight(saved(tmp_path, {"use_dft_loss": True}), chats)
    assert read_setup(saved(tmp_path, {"use_dft_loss": True})).batching.settings["loss"] is None
    assert any("use_dft_loss" in warning.message for warning in report.warnings)


def test_changes_are_keys_of_the_same_configuration(tmp_path, chats):
    report = batchstat.preflight(saved(tmp_path, {"warmup_ratio": 0.1}), chats)
    assert not report.setup.warnings
    assert report.changes.packed.keys == {"neat_packing": True}
    packed = saved(tmp_path, {"neat_packing": True, "per_device_train_batch_size": 1})
    report = batchstat.preflight(packed, chats)
    assert report.setup.batching.strategy.text.startswith("llama-factory:packing=masked,")
    named = filter(None, (report.changes.star, report.changes.fastest, report.changes.packed))
    by_keys = [change.keys for change in named if change.keys is not None]
    assert by_keys in ([], [{"flash_attn": "fa2"}])


SHARED = {"file_name": "a.json", "formatting": "sharegpt"}
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def shared(*roles: str, **contents: str) -> dict[str, Any]:
    """A chat in ShareGPT's format, of a word per message unless a role's contents are given."""
    return {"conversations": [{"from": r, "value": contents.get(r, "word")} for r in roles]}


def templated(folder: Path, template: str) -> str:
    """A tokenizer with a chat template."""
    save_tokenizer(folder / "own")
    (folder / "own" / "chat_template.jinja").write_text(template)
    return str(folder / "own")


@pytest.mark.parametrize("role", ["chatgpt", "bing", "bard", "assistant"])
def test_chats_of_other_roles_than_human_and_gpt_are_dropped(tmp_path, role):
    needs("transformers")
    rows = [shared("human", "gpt")] * 3 + [shared("human", role), shared("user", "gpt")]
    report = batchstat.preflight(with_data(tmp_path, SHARED, rows))
    assert report.samples.dropped == {"whose turns are not user and assistant": 2}


def test_a_chat_that_ends_in_a_call_is_refused(tmp_path):
    needs("transformers")
    rows = [shared("human", "gpt"), shared("human", "function_call")]
    with pytest.raises(batchstat.InputError, match="record 1: a chat has tools"):
        batchstat.preflight(with_data(tmp_path, SHARED, rows))


def test_one_sample_is_held_out(tmp_path):
    needs("transformers")
    report = batchstat.preflight(with_data(tmp_path, {"file_name": "a.json"}, ALPACA, val_size=1))
    assert report.samples.held_out == 1


def test_held_out_chats_all_out_of_turn_are_refused(tmp_path):
    """As LLaMA-Factory stops at an evaluation set without a sample: seed 42 holds out these two."""
    needs("transformers")
    entry = {"file_name": "a.json", "formatting": "sharegpt", "columns": {"messages": "messages"}}
    held = np.random.default_rng(42).permutation(12)[:2].tolist()
    cut = [
        {"messages": chat["messages"][:1]} if i in held else chat for i, chat in enumerate(CHATS)
    ]
    config = with_data(tmp_path, entry, cut, val_size=2)
    with pytest.raises(batchstat.InputError, match="val_size holds out 2 chats whose turns are"):
        batchstat.preflight(config)
    cut[held[0]] = CHATS[0]
    assert batchstat.preflight(with_data(tmp_path, entry, cut, val_size=2)).samples.held_out == 2


@pytest.mark.parametrize(
    ("template", "is_read"),
    [
        (CHATML, True),
        ("{{ '<|im_start|>' }}" + CHATML, False),
        (CHATML.replace("m['content']", "m['content'] | trim"), False),
    ],
)
def test_slots_are_read_out_of_the_tokenizers_own_template(tmp_path, template, is_read):
    needs("transformers")
    own = templated(tmp_path, template)
    more = {"template": None, "model_name_or_path": own}
    config = with_data(tmp_path, {"file_name": "a.json"}, ALPACA, **more)
    if is_read:
        assert batchstat.preflight(config).samples
        return
    with pytest.raises(batchstat.InputError, match="gives LLaMA-Factory, which reads the texts"):
        batchstat.preflight(config)


def test_an_empty_system_message_without_a_template_is_refused(tmp_path):
    needs("transformers")
    more = {"template": None, "model_name_or_path": templated(tmp_path, CHATML)}
    config = with_data(tmp_path, SHARED, [shared("system", "human", "gpt", system="")], **more)
    with pytest.raises(batchstat.InputError, match="begins with an empty system message"):
        batchstat.preflight(config)


def test_a_template_that_is_passed_has_what_begins_its_answers(tmp_path):
    """mistral's answers begin with a blank, whatever its system message is."""
    needs("transformers")
    template = tmp_path / "mistral.jinja"
    text = (RENDERED / "mistral.jinja").read_text(encoding="utf-8")
    template.write_text(text)
    named = {"model_name_or_path": templated(tmp_path, CHATML)}
    more = {"template": "mistral", "default_system": "Be brief.", **named}
    config = with_data(tmp_path, {"file_name": "a.json"}, ALPACA, **more)
    with pytest.raises(batchstat.InputError, match=r"default_system='Be brief.'"):
        batchstat.preflight(config)
    setup = read_setup(config)
    assert profile_keywords(setup, chat_template=template)["chat_template"] == template


def test_the_name_of_a_data_set_that_yaml_reads_as_a_date(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    path = tmp_path / "config.yaml"
    text = "stage: sft\ndo_train: true\ncutoff_len: 8\ndataset: 2020-01-01\n"
    path.write_text(f"{text}dataset_dir: {json.dumps(str(tmp_path))}\n")
    with pytest.raises(batchstat.InputError, match="2020-01-01"):
        batchstat.preflight(path, framework="llama-factory")


def test_instructions_without_a_column_of_inputs_are_refused(tmp_path):
    """As LLaMA-Factory stops there: it reads the column of every instruction."""
    rows = [{key: row[key] for key in ("instruction", "output")} for row in ALPACA]
    config = with_data(tmp_path, {"file_name": "a.json"}, rows)
    with pytest.raises(batchstat.InputError, match="a.json has no column 'input', at which LLaMA"):
        batchstat.preflight(config)
    assert batchstat.preflight(with_data(tmp_path, {"file_name": "a.json"}, ALPACA))
