"""`preflight` against the trainers themselves: samples, batches, widths, steps, to the integer."""

import json
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.preflight.corpus import profile_keywords
from batchstat.trainers.trl.config import SFT_CONFIG
from batchstat.trainers.trl.templates import answers_template
from conftest import SAMPLE_DATA, needs, write_jsonl
from reports import batches_of
from tables import in_pairs
from trainers import is_sft, run, save_tokenizer, shorter_definition

PLAIN = {"num_train_epochs": 3, "warmup_steps": 0.1}
UNEVEN = {"even_batches": False}
CASES: list[tuple[str, dict[str, Any], int]] = [
    ("text", {**PLAIN, "per_device_train_batch_size": 8}, 1),
    ("text", {**PLAIN, "per_device_train_batch_size": 8}, 3),
    ("text", {**PLAIN, "per_device_train_batch_size": 4, "data_seed": 7}, 2),
    ("text", {**PLAIN, "gradient_accumulation_steps": 4, "dataloader_drop_last": True}, 2),
    ("text", {**PLAIN, "train_sampling_strategy": "sequential"}, 2),
    ("text", {"max_steps": 17, "warmup_steps": 5, "seed": 1}, 1),
    ("text", {"num_train_epochs": 0.5, "gradient_accumulation_steps": 3}, 1),
    ("text", {"max_steps": 17, "warmup_steps": 2.7, "gradient_accumulation_steps": 5}, 1),
    ("text", {"max_steps": 4, "gradient_accumulation_steps": 2, "warmup_steps": 0.3}, 3),
    ("text", {"accelerator_config": UNEVEN, "per_device_train_batch_size": 5}, 2),
    ("text", {"accelerator_config": UNEVEN, "per_device_train_batch_size": 7}, 4),
    ("text", {"accelerator_config": UNEVEN, "dataloader_drop_last": True}, 3),
    ("text", {"accelerator_config": UNEVEN, "train_sampling_strategy": "sequential"}, 3),
    ("text", {"max_length": 64, "accelerator_config": UNEVEN, "per_device_train_batch_size": 9}, 4),
    ("text", {"max_length": 64, "gradient_accumulation_steps": 2}, 2),
    ("text", {"max_length": 64, "pad_to_multiple_of": 16, "seed": 3}, 1),
    ("text", {"max_length": None, "per_device_train_batch_size": 2}, 1),
    ("text", {"max_length": 64, "packing": True, "per_device_train_batch_size": 2}, 2),
    ("text", {"max_length": 64, "packing": True, "packing_strategy": "bfd_split"}, 2),
    ("text", {"max_length": 64, "packing": True, "packing_strategy": "wrapped"}, 2),
    (
        "completion",
        {"max_length": 40, "packing": True, "packing_strategy": "wrapped", "seed": 3},
        2,
    ),
    ("completion", {"max_length": 48, "per_device_train_batch_size": 4}, 2),
    ("completion", {"max_length": 128, "completion_only_loss": False}, 1),
    ("completion", {"max_length": 96, "packing": True, "per_device_train_batch_size": 1}, 3),
    ("completion", {"max_length": 20, "seed": 5, "dataloader_drop_last": True}, 2),
    ("chat", {"max_length": 200, "gradient_accumulation_steps": 2}, 2),
    ("chat", {"max_length": 120, "assistant_only_loss": True}, 2),
    ("chat", {"max_length": 300, "packing": True, "assistant_only_loss": True}, 1),
    ("text", {"max_length": 64, "truncation_mode": "keep_end", "seed": 9}, 2),
    ("completion", {"max_length": 40, "truncation_mode": "keep_end"}, 1),
    ("chat", {"max_length": 120, "truncation_mode": "keep_end", "assistant_only_loss": True}, 3),
    ("text", {"max_length": 64, "packing": True, "truncation_mode": "keep_end"}, 1),
    ("text", {"max_length": 64, "shuffle_dataset": True, "seed": 7, "data_seed": 3}, 2),
    ("completion", {"max_length": 20, "shuffle_dataset": True, "seed": 0}, 1),
    (
        "chat",
        {"max_length": 99, "shuffle_dataset": True, "train_sampling_strategy": "sequential"},
        2,
    ),
    ("text", {"max_length": 64, "packing": True, "shuffle_dataset": True, "data_seed": 3}, 2),
    (
        "text",
        {"max_length": 32, "packing": True, "packing_strategy": "wrapped", "shuffle_dataset": True},
        3,
    ),
    ("text", {"max_length": None, "padding_free": True, "per_device_train_batch_size": 5}, 3),
    ("completion", {"max_length": None, "padding_free": True, "pad_to_multiple_of": 64}, 1),
    (
        "chat",
        {
            "max_length": None,
            "padding_free": True,
            "dataloader_drop_last": True,
            "shuffle_dataset": True,
        },
        2,
    ),
    ("text", {"max_length": 64, "packing": True, "padding_free": True, "dataset_num_proc": 3}, 1),
    (
        "few",
        {
            "max_length": 64,
            "packing": True,
            "packing_strategy": "wrapped",
            "dataset_num_proc": 200,
            "shuffle_dataset": True,
        },
        2,
    ),
    ("text", {"max_length": 64, "dataset_num_proc": 3, "pad_to_multiple_of": "auto"}, 2),
    ("text", {"max_length": 64, "completion_only_loss": True, "eval_packing": True}, 1),
    ("chat", {"max_length": 99, "completion_only_loss": False}, 1),
    ("completion", {"max_length": 99, "completion_only_loss": True, "packing": True}, 1),
    ("completion", {"max_length": 99, "completion_only_loss": False, "packing": True}, 1),
    ("blank", {"max_length": 64, "per_device_train_batch_size": 3}, 2),
    ("chat", {"max_length": 99, "eos_token": "<|im_end|>"}, 1),
    ("sharegpt", {"max_length": 99, "per_device_train_batch_size": 3}, 2),
    ("sharegpt", {"max_length": 64, "packing": True}, 1),
    ("chat pairs", {"max_length": 99, "per_device_train_batch_size": 3}, 2),
    ("masked", {"max_length": 40, "eos_token": "<|im_end|>"}, 1),
    ("masked", {"max_length": 40, "completion_only_loss": True}, 2),
    *(
        ("chat", {"max_length": 99, "completion_only_loss": only, "assistant_only_loss": True}, 1)
        for only in (True, False)
    ),
]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory) -> Path:
    needs("transformers")
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"), shorter_definition())


@pytest.fixture(scope="session")
def corpora(tmp_path_factory) -> dict[str, Path]:
    """Texts, some of which end as the trainer would end them; few of them, which are fewer than
    the processes of a case; texts of which some are blank; completions; chats, also as ShareGPT
    writes them; both; token ids with masks.
    """
    folder, rng = tmp_path_factory.mktemp("corpora"), random.Random(0)
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines()
    texts = [line[: rng.randint(1, 400)].strip() or "x" for line in lines[:83]]
    ended = [text + "<|im_end|>" * (i % 5 == 0) for i, text in enumerate(texts)]
    cut = [rng.randint(1, len(text)) for text in texts]
    pairs = [{"prompt": t[:at], "completion": t[at:]} for t, at in zip(texts, cut, strict=True)]
    lines = (SAMPLE_DATA / "conversations.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line) for line in lines]
    asked = [
        {"prompt": chat["messages"][:-1], "completion": chat["messages"][-1:]} for chat in chats
    ]
    # Of more tokens than the roles that they stand for, which the template writes.
    names = {"user": "human being", "assistant": "gpt, answering", "system": "system"}
    shared = [
        {
            "conversations": [
                {"from": names[m["role"]], "value": m["content"]} for m in c["messages"]
            ]
        }
        for c in chats
    ]
    sizes = [rng.randint(2, 60) for _ in range(50)]
    masked = [
        {"input_ids": [5] * n, "completion_mask": [0] * (n // 2) + [1] * (n - n // 2)}
        for n in sizes
    ]
    blanks = [{"text": text if i % 4 else " " * (i % 3)} for i, text in enumerate(texts)]
    return {
        "blank": write_jsonl(folder / "blank.jsonl", blanks),
        "chat pairs": write_jsonl(folder / "asked.jsonl", asked),
        "masked": write_jsonl(folder / "masked.jsonl", masked),
        "text": write_jsonl(folder / "text.jsonl", [{"text": text} for text in ended]),
        "few": write_jsonl(folder / "few.jsonl", [{"text": text} for text in ended[:13]]),
        "completion": write_jsonl(folder / "completion.jsonl", pairs),
        "chat": write_jsonl(folder / "chat.jsonl", chats),
        "sharegpt": write_jsonl(folder / "sharegpt.jsonl", shared),
    }


@pytest.mark.torch
@pytest.mark.usefixtures("tokenizers_loaded_once")
@pytest.mark.parametrize(("kind", "values", "ranks"), CASES, ids=str)
def test_its_batches_are_the_trainers(tmp_path, tokenizer, corpora, kind, values, ranks):
    needs("torch")
    needs("trl" if is_sft(values) else "accelerate")
    expected = run(values, corpora[kind], tokenizer, ranks, tmp_path)
    config = tmp_path / "training_args.json"
    config.write_text(json.dumps(values))
    given = {"corpus": (str(corpora[kind]),)}
    if kind != "masked":
        given["tokenizer"] = str(tokenizer)
    profile = batchstat.profile(**profile_keywords(read_setup(config), **given))
    more = {} if is_sft(values) else {"max_length": 128}
    report = batchstat.preflight(config, profile, world_size=ranks, **more)
    with_trained = is_sft(values)
    for rank, theirs in enumerate(expected.batches):
        theirs = [(*batch[:2], batch[2] if with_trained else None) for batch in theirs]
        # Of half an epoch too, whose dry run reads it whole.
        assert theirs == batches_of(report, rank, with_trained=with_trained)
    if not values.get("packing", False):
        assert len(report.samples.profile) == expected.samples
    assert (report.total_steps, report.warmup_steps) == (expected.steps, expected.warmup)


def prepared(values: dict[str, Any], rows: list[dict[str, Any]], tokenizer: Path, folder: Path):
    """What the trainer and `preflight` make of rows: batches, or the error of either."""
    corpus = write_jsonl(folder / "rows.jsonl", rows)
    made: list[Any] = []
    try:
        made.append(run(values, corpus, tokenizer, 1, folder).batches[0])
    except Exception as error:  # a trainer, or a template, may raise anything
        made.append(error)
    config = folder / "sft.json"
    config.write_text(json.dumps(values | {"model_name_or_path": str(tokenizer)}))
    try:
        profile = batchstat.profile(**profile_keywords(read_setup(config), corpus=str(corpus)))
        made.append(batches_of(batchstat.preflight(config, profile), 0, with_trained=True))
    except batchstat.InputError as error:
        made.append(error)
    return made


def with_template(tokenizer: Path, template: str, folder: Path) -> Path:
    loaded = needs("transformers").AutoTokenizer.from_pretrained(tokenizer)
    loaded.chat_template = template
    loaded.save_pretrained(folder / "own")
    return folder / "own"


CHAT = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c d"}]
HANDED = (
    "{% if tools is not none %}{{ tools | length }} tools {% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}no thought {% endif %}"
    "{% for m in messages %}{{ m.role }} {% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{{ part.text }} and {% endfor %}{% endif %}{% endfor %}"
)
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
QUIET = {"chat_template_kwargs": {"enable_thinking": False}}
SHARED = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]


@pytest.mark.torch
@pytest.mark.parametrize(
    "rows",
    [
        [{"messages": CHAT} | QUIET] * 3,
        [
            {"messages": CHAT} | QUIET,
            {"messages": CHAT, "chat_template_kwargs": {"enable_thinking": True}},
        ],
        [{"prompt": CHAT[:1], "completion": CHAT[1:]} | QUIET] * 3,
        [{"messages": CHAT, "tools": []}] * 3,
        [{"messages": CHAT, "tools": json.dumps([{"any": "shape"}])}] * 3,
        [{"messages": [{"role": "critic", "content": PARTS}]}] * 3,
        [{"conversations": SHARED, "messages": CHAT}] * 3,
        [{"conversations": CHAT, "text": "a b c"}] * 3,
        [{"prompt": "a", "completion": "b", "text": "c"}] * 3,
    ],
    ids=str,
)
def test_rows_reach_the_template_as_trl_hands_them_on(tmp_path, tokenizer, rows):
    needs("trl")
    own = with_template(tokenizer, HANDED, tmp_path)
    theirs, made = prepared({"max_length": 64}, rows, own, tmp_path)
    assert made == theirs


@pytest.mark.torch
@pytest.mark.parametrize(
    "rows",
    [
        [{"conversations": CHAT}] * 3,
        [{"messages": SHARED}] * 3,
        [{"prompt": SHARED[:1], "completion": SHARED[1:]}] * 3,
        [{"messages": [{"role": "user", "content": PARTS}]}] * 3,
        [{"messages": CHAT, "prompt": "a"}] * 3,
        [{"messages": CHAT, "image": "a"}] * 3,
        [{"messages": CHAT, "labels": 1}] * 3,
        [{"messages": CHAT, "chat_template_kwargs": None}] * 3,
        [{"prompt": "a", "completion": "b", "chat_template_kwargs": None}] * 3,
        [{"prompt": "a", "completion": "b", "chat_template_kwargs": "{}"}] * 3,
        [{"messages": CHAT, "tools": {"name": "f"}}] * 3,
        [{"messages": []}] * 3,
    ],
    ids=str,
)
def test_what_stops_the_trainer_is_refused(tmp_path, tokenizer, rows):
    needs("trl")
    template = "{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}"
    own = with_template(tokenizer, template, tmp_path)
    assert all(
        isinstance(each, Exception) for each in prepared({"max_length": 9}, rows, own, tmp_path)
    )


@pytest.mark.torch
def test_a_template_without_marks_is_replaced_as_trl_replaces_it(tokenizer):
    trl, loaded = needs("trl"), needs("transformers").AutoTokenizer.from_pretrained(tokenizer)
    utils = import_module("trl.chat_template_utils")
    replaced = 0
    for file in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja")):
        source = file.read_text(encoding="utf-8")
        if utils.has_generation_markers(source):
            assert answers_template(source) is None
            continue
        loaded.chat_template = source
        try:
            expected = utils.get_training_chat_template(loaded)
        except ValueError:
            with pytest.raises(batchstat.InputError, match="none of those that TRL replaces"):
                answers_template(source)
        else:
            found = answers_template(source)
            assert found is not None
            assert found.read_text(encoding="utf-8") == expected, file.name
            replaced += 1
    assert replaced > 5


@pytest.mark.torch
@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "llama3", "phi3", "gemma4"])
def test_answers_are_those_that_trl_marks(tmp_path, tokenizer, name):
    """gemma4 is one without a marked template."""
    templates = Path(needs("trl").__file__).parent / "chat_templates"
    own = with_template(tokenizer, (templates / f"{name}.jinja").read_text(), tmp_path)
    rows = [{"messages": CHAT * n} for n in (1, 2, 3)]
    values = {"max_length": 64, "assistant_only_loss": True}
    theirs, made = prepared(values, rows, own, tmp_path)
    if name == "gemma4":
        assert isinstance(theirs, ValueError)
        assert "it stops: name one that marks answers" in str(made)
    else:
        assert made == theirs


@pytest.mark.torch
@in_pairs(ranks=[2, 3, 4], drop_last=[False, True], even=[False, True])
def test_split_batches_are_those_of_a_smaller_size(ranks, drop_last, even):
    """The remedy of its message."""
    data, loading = needs("torch").utils.data, needs("accelerate.data_loader")
    for n in (*range(1, 26), 100):
        for size in (1, 2, 5):
            whole = data.BatchSampler(range(n), size * ranks, drop_last)
            small = data.BatchSampler(range(n), size, drop_last)
            for rank in range(ranks):
                split = loading.BatchSamplerShard(whole, ranks, rank, True, even)
                own = loading.BatchSamplerShard(small, ranks, rank, False, even)
                assert list(split) == list(own)


@pytest.mark.torch
def test_what_the_trainers_save_is_read(tmp_path):
    """to_json_string() of their arguments, as the guide says."""
    trl, transformers = needs("trl"), needs("transformers")
    given = {"output_dir": str(tmp_path), "use_cpu": True, "bf16": False, "seed": 5}
    for kind in (transformers.TrainingArguments, trl.SFTConfig):
        arguments = kind(**given)
        config = tmp_path / "training_args.json"
        config.write_text(arguments.to_json_string())
        setup = read_setup(config)
        assert setup.framework == {"SFTConfig": "trl"}.get(kind.__name__, "transformers")
        assert setup.batching.settings["seed"] == 5
        assert setup.config.values()["per_device_train_batch_size"] == 8


@pytest.mark.torch
def test_the_sample_configuration_is_one_that_trl_takes():
    trl = needs("trl")
    kinds = (trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig, trl.DatasetMixtureConfig)
    path = str(SAMPLE_DATA / "sft.yaml")
    flags = ["--config", path, "--use_cpu", "true", "--bf16", "false"]
    _, config, _, mixture = trl.TrlParser(kinds).parse_args_and_config(flags)
    setup = read_setup(path)
    both = [key for key in SFT_CONFIG.keys if key in vars(config)]
    unset = {"accelerator_config"}  # filled in by transformers
    assert len(both) > 20
    for key in set(both) - unset:
        assert setup.config.values()[key] == vars(config)[key], key
    assert len(trl.get_dataset(mixture)["train"]) == len(batchstat.preflight(path).profile)
