"""`${…}` in a configuration stands for the value of another key."""

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import batchstat
from batchstat.trainers.base.files import read_setup
from batchstat.trainers.base.references import resolve_references
from tables import in_turn

SFT = {"max_length": 64, "packing": False, "per_device_train_batch_size": 2}


def saved(folder: Path, text: str | dict[str, Any]) -> Path:
    path = folder / "config.yaml"
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return path


@in_turn(
    ("changes", "key", "expected"),
    [
        ({"size": 3, "per_device_train_batch_size": "${size}"}, "per_device_train_batch_size", 3),
        ({"mine": {"data": {"length": 9}}, "max_length": "${mine.data.length}"}, "max_length", 9),
        ({"a": "${b}", "b": "${c}", "c": 7, "seed": "${a}"}, "seed", 7),
        ({"seed": "${oc.select:missing,5}"}, "seed", 5),
        ({"packing": "${oc.select:missing, True}"}, "packing", True),
        ({"max_length": "${oc.select:seed,5}", "seed": 11}, "max_length", 11),
        (
            {"even": True, "accelerator_config": {"even_batches": "${even}"}},
            *("accelerator_config", {"even_batches": True}),
        ),
        (
            {"files": ["a.jsonl"], "datasets": [{"path": "json", "data_files": "${files}"}]},
            *("datasets", [{"path": "json", "data_files": ["a.jsonl"]}]),
        ),
    ],
)
def test_a_value_may_refer_to_another_key(tmp_path, changes, key, expected):
    setup = read_setup(saved(tmp_path, SFT | changes))
    assert setup.framework == "trl"
    assert setup.config.values()[key] == expected


@pytest.mark.parametrize(
    ("values", "framework"),
    [
        ({"sequence_len": "${length}", "micro_batch_size": 2, "length": 64}, "axolotl"),
        ({"stage": "sft", "do_train": True, "cutoff_len": "${n.m}", "n": {"m": 64}}, "llama-fact"),
        ({"seed": "${mine}", "warmup_steps": 0, "mine": 64}, "transformers"),
    ],
)
def test_of_every_trainer(tmp_path, values, framework):
    setup = read_setup(saved(tmp_path, values))
    assert setup.framework.startswith(framework)
    assert 64 in setup.config.values().values()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "${oc.env:SEED}"},
        {"seed": "${missing}"},
        {"seed": "${max_length}", "max_length": "${seed}"},
        {"datasets": [{"path": "json", "data_files": "${root}/a.jsonl"}]},
    ],
)
def test_what_refers_to_nothing_in_the_file_is_refused(tmp_path, changes):
    with pytest.raises(batchstat.OptionError, match=r"refers to a key that is not in this file"):
        read_setup(saved(tmp_path, SFT | changes))


def test_a_key_that_decides_nothing_may_refer_to_anything(tmp_path):
    read_setup(saved(tmp_path, SFT | {"output_dir": "${oc.env:HOME}/out"}))


def test_a_key_to_which_nothing_refers_is_still_unknown(tmp_path):
    assert read_setup(saved(tmp_path, SFT | {"size": 3})).assumed == ("size",)


TREES = st.recursive(
    st.integers() | st.booleans() | st.text("abc }$.", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), TREES, min_size=1), TREES)
def test_values_without_references_stay_and_a_reference_is_the_value(content, value):
    assert resolve_references(content).values == content
    found = resolve_references({**content, "value": value, "other": [{"deep": "${value}"}]})
    assert found.values["other"] == [{"deep": value}]
    assert found.referred == {"value"}


def test_lists_that_yaml_repeats_are_gone_through_once(tmp_path):
    """Seven levels of nine aliases each would be five million lists."""
    lines = ["seed: 1", "warmup_steps: 0", "l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 40):
        lines.append(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]")
    with pytest.raises(batchstat.OptionError):
        read_setup(saved(tmp_path, "\n".join(lines)))


def test_a_list_in_itself_is_refused_in_one_line(tmp_path):
    path = saved(tmp_path, "seed: 1\nwarmup_steps: 0\naccelerator_config: &a {split_batches: *a}\n")
    with pytest.raises(batchstat.OptionError, match="a table or list is in itself"):
        read_setup(path)
