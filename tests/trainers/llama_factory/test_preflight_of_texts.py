"""LLaMA-Factory's stage: pt against a plain loop over ids; its own batches are in integration."""

import json
import random
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.trainers.base.files import read_setup
from conftest import needs, write_jsonl
from reports import batches_of
from trainers import save_tokenizer

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

END = "<|im_end|>"
BASE = {"stage": "pt", "do_train": True, "cutoff_len": 24, "seed": 3, "report_to": "none"}


PADS = {
    "with another": "<|endoftext|>",
    "with the end": END,
    "with the unknown": "<unk>",
    "with one in capitals": "<PAD>",
    "with whole words": "[pad]",
}


@pytest.fixture(scope="module", params=PADS)
def tokenizer(tmp_path_factory, request) -> Path:
    """A tokenizer that pads with its last token or another, which texts may hold as it is written,
    in other letters, as no word of its own, or as what is unknown.
    """
    needs("transformers")
    folder = tmp_path_factory.mktemp("tokenizer")
    pad = PADS[request.param]
    if request.param in ("with another", "with the end"):
        save_tokenizer(folder)
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": pad}))
        return folder
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    own = Tokenizer(WordLevel({"<unk>": 0, "ten": 1, "words": 2, "few": 3}, unk_token="<unk>"))
    own.normalizer, own.pre_tokenizer = Lowercase(), Whitespace()
    own.add_special_tokens([END])
    if pad != "<unk>":
        is_word = pad == "[pad]"
        own.add_tokens([AddedToken(pad, single_word=is_word, normalized=not is_word)])
    names = {"eos_token": END, "unk_token": "<unk>"}
    made = PreTrainedTokenizerFast(tokenizer_object=own, **names)
    made.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": pad}))
    return folder


def texts_of(seed: int) -> list[str]:
    """Texts some of which are empty or blank, end as they will be ended, or hold what pads."""
    rng = random.Random(seed)
    held = ["<PAD>", "<pad>", "[pad]", "un[pad]ded", "novel", "<unk>", "<|endoftext|>", END]
    words = ["ten words"] * 5 + held
    some = [rng.choices(words, k=rng.randrange(9)) for _ in range(rng.randint(20, 60))]
    joined = [rng.choice([" ", " ", ""]).join(each) for each in some]
    return [text + rng.choice(["", "", END, "\n ", END * 2]) for text in joined]


def config_of(folder: Path, texts: list[str], tokenizer: Path, **values: Any) -> Path:
    write_jsonl(folder / "a.jsonl", [{"words": text} for text in texts])
    entry = {"file_name": "a.jsonl", "columns": {"prompt": "words"}}
    (folder / "dataset_info.json").write_text(json.dumps({"a": entry}))
    data = {"dataset": "a", "dataset_dir": str(folder), "model_name_or_path": str(tokenizer)}
    path = folder / "config.json"
    path.write_text(json.dumps({**BASE, **data, **values}))
    return path


@cache
def loaded(tokenizer: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer)


def rows_of(texts: list[str], tokenizer: Path, values: dict[str, Any]) -> list[tuple[int, int]]:
    """Tokens of each row, and those with a label that is predicted: made one text after another."""
    own = loaded(tokenizer)
    ids = [own.encode(text + END, add_special_tokens=False) for text in texts]
    cutoff = 24
    if values.get("packing") is False:
        rows = [each[:cutoff] for each in ids]
    else:
        cutoff -= values.get("packing") is True
        rows, size = [], values.get("preprocessing_batch_size", 1000)
        processes = values.get("preprocessing_num_workers", 1)
        share, more = divmod(len(ids), processes)
        edges = accumulate((share + (i < more) for i in range(processes)), initial=0)
        for first, end in pairwise(edges):
            for at in range(first, end, size):
                flat = [one for text in ids[at : min(at + size, end)] for one in text]
                rows += [flat[i : i + cutoff] for i in range(0, len(flat) - cutoff + 1, cutoff)]
    return [(len(row), sum(one != own.pad_token_id for one in row[1:])) for row in rows]


@pytest.mark.parametrize(
    ("seed", "values"),
    [
        (0, {}),
        (1, {"packing": True}),
        (2, {"packing": False}),
        (3, {"preprocessing_batch_size": 7}),
        (4, {"preprocessing_batch_size": 9, "preprocessing_num_workers": 3}),
    ],
)
def test_its_rows_are_those_of_a_plain_loop(tmp_path, tokenizer, values, seed):
    texts = texts_of(seed)
    values = {"per_device_train_batch_size": 1, **values}
    report = batchstat.preflight(config_of(tmp_path, texts, tokenizer, **values))
    ours = batches_of(report, 0, with_trained=True)
    assert sorted((rows[0], trained) for _, rows, trained in ours) == sorted(
        rows_of(texts, tokenizer, values)
    )


def test_what_is_left_of_a_batch_of_texts_is_lost(tmp_path, tokenizer):
    texts = texts_of(5)
    report = batchstat.preflight(config_of(tmp_path, texts, tokenizer, preprocessing_batch_size=5))
    counts = report.simulation.row.counts
    assert counts.real_tokens == 24 * report.num_examples
    lost = report.samples.profile.lengths.sum() - counts.real_tokens
    assert counts.dropped_tokens + counts.truncated_tokens == lost > 0


def test_too_few_tokens_for_a_row_are_refused(tmp_path, tokenizer):
    config = config_of(tmp_path, ["few"], tokenizer, cutoff_len=50)
    with pytest.raises(batchstat.InputError, match="no batches"):
        batchstat.preflight(config)


def test_held_out_texts_of_less_than_a_row_are_refused(tmp_path, tokenizer):
    """As LLaMA-Factory stops at an evaluation set without a row."""
    texts = ["ten words " * 9] * 8
    config = config_of(tmp_path, texts, tokenizer, cutoff_len=120, val_size=2)
    with pytest.raises(batchstat.InputError, match="val_size holds out 2 texts.* raise val_size"):
        batchstat.preflight(config)
    assert batchstat.preflight(config_of(tmp_path, texts, tokenizer, val_size=2)).num_examples


def test_texts_that_have_changed_since_they_were_counted_are_refused(tmp_path, tokenizer):
    config = config_of(tmp_path, ["ten words"] * 40, tokenizer)
    options = {"text_column": "words", "append": END, "always_append": True}
    profile = batchstat.profile(tmp_path / "a.jsonl", tokenizer=str(tokenizer), **options)
    assert batchstat.preflight(config, profile).num_examples
    write_jsonl(tmp_path / "a.jsonl", [{"words": "ten words"}] * 41)
    with pytest.raises(batchstat.InputError, match="changed since it was"):
        batchstat.preflight(config, profile)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"neat_packing": True}, "neat_packing contradicts stage=pt: remove one"),
        ({"mask_history": True}, "mask_history contradicts stage=pt"),
        ({"streaming": True}, "streaming=True is not modelled"),
        ({"template": "glm4"}, "template='glm4' with stage=pt is not modelled"),
    ],
)
def test_keys_that_it_does_not_take(tmp_path, values, message):
    with pytest.raises(batchstat.OptionError, match=message):
        read_setup(config_of(tmp_path, ["a"], tmp_path, **values))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"file_name": "a.jsonl"}, "texts of several columns .prompt, query, response."),
        ({"file_name": "a.jsonl", "formatting": "sharegpt"}, "formatting='sharegpt', with stage"),
        ({"file_name": "a.txt", "columns": {"prompt": "line"}}, "plain text and has no column"),
    ],
)
def test_a_data_set_that_is_not_read(tmp_path, entry, message):
    config = config_of(tmp_path, ["a"], tmp_path)
    (tmp_path / "dataset_info.json").write_text(json.dumps({"a": entry}))
    with pytest.raises(batchstat.InputError, match=f"{message}.*pass the texts as CORPUS"):
        batchstat.preflight(config)


def test_texts_that_were_counted_without_their_end_are_refused(tmp_path, tokenizer):
    config = config_of(tmp_path, ["a"], tokenizer)
    alone = batchstat.profile(tmp_path / "a.jsonl", text_column="words", tokenizer=str(tokenizer))
    with pytest.raises(batchstat.InputError, match=r"ends each text with '<\|im_end\|>'"):
        batchstat.preflight(config, alone)


def test_ids_are_taken_as_they_are(tmp_path):
    """29 batches of 50,000 ids have 48 blocks of 1,024 each, and one of 22,500 has 21."""
    corpus = write_jsonl(tmp_path / "a.jsonl", [{"input_ids": [7] * 50}] * 2_450)
    profile = batchstat.profile(corpus, tokens_column="input_ids")
    config = tmp_path / "pt.json"
    config.write_text(json.dumps({**BASE, "cutoff_len": 1024}))
    report = batchstat.preflight(config, profile)
    assert report.num_examples == 48 + 48 + 21
    said = [each for each in report.samples.warnings if each.id == "trained/pad-inside-texts"]
    assert len(said) == 1, report.samples.warnings
