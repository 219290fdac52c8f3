"""A key that decides about batches has a recorded case and a line in the documentation."""

import re
from collections.abc import Iterable

import pytest
from test_preflight_of_trainers import CASES as OF_TRAINERS

from batchstat.trainers.base.keys import TrainerConfig
from batchstat.trainers.registry import CONFIGURATIONS
from conftest import ROOT

PAGE = ROOT / "docs/how-to/trainer-keys.md"

CASES: dict[str, tuple[str, Iterable[Iterable[str]]]] = {
    "transformers": ("CASES of test_preflight_of_trainers.py", [each[1] for each in OF_TRAINERS]),
    "trl": ("CASES of test_preflight_of_trainers.py", [each[1] for each in OF_TRAINERS]),
}
"""Where a case is added, and the keys of those that a trainer itself has batched."""

_FILES = "the files and the tokenizer of a case are passed by options"
_OLD = "tests/trainers/preflight/test_preflight.py holds it against the key that took its place"
_WARNED = "only a warning"
NOT_RECORDED: dict[str, dict[str, str]] = {
    "transformers": {
        "auto_find_batch_size": _WARNED,
        "average_tokens_across_devices": "decides weights of tokens: tests/integration/weights",
        "group_by_length": _OLD,
        "parallelism_config": "refused, in words of its own",
        "warmup_ratio": _OLD,
    },
    "trl": {
        "accelerate_config": _WARNED,
        "num_processes": "the number of ranks, which each case has",
        "dataset_kwargs": "refused, in words of its own",
        **dict.fromkeys(
            (
                *("chat_template_path", "dataset_config", "dataset_name", "dataset_text_field"),
                *("dataset_train_split", "datasets", "model_name_or_path"),
            ),
            _FILES,
        ),
    },
}
"""Keys that no recorded case sets, and why that is so."""


def own_keys(name: str) -> set[str]:
    """The keys that decide and that the trainer does not take over from another one."""
    config = CONFIGURATIONS[name].config
    [base] = config.__bases__
    assert issubclass(base, TrainerConfig)
    return {*config.keys()} - {*base.keys()}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_is_set_in_a_case_that_the_trainer_batched(name):
    assert name in CASES, f"name the recorded cases of {name} in CASES of {__file__}"
    where, cases = CASES[name]
    recorded = {key for values in cases for key in values}
    declared = CONFIGURATIONS[name].keys
    refused = {key for key, each in declared.items() if each.refused}
    can_be = own_keys(name) - refused
    missing = sorted(can_be - recorded - {*NOT_RECORDED[name]})
    assert not missing, (
        f"no recorded case sets {', '.join(missing)}, so that nothing shows what {name} makes of "
        f"it: add one to {where}; or say in NOT_RECORDED of {__file__} what shows it instead"
    )
    stale = sorted({*NOT_RECORDED[name]} & (recorded | refused))
    assert not stale, f"take {', '.join(stale)} out of NOT_RECORDED: cases set it, or it is refused"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_is_named_in_the_documentation(name):
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    own = [each for each in sections if each.lower().startswith(f"{name}\n")]
    assert own, f"write a section {name} with the keys that decide into {PAGE}"
    named = set(re.findall(r"`(\w+)", own[0]))
    missing = sorted(own_keys(name) - named)
    assert not missing, f"say in section {name} of {PAGE} what {', '.join(missing)} decides"
