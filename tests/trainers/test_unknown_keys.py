"""Keys of a trainer's configuration that nobody knows: a misspelt one is an error, others are what
the report rests on.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import batchstat
from batchstat.trainers.base.files import read_setup, setup_of
from batchstat.trainers.registry import CONFIGURATIONS
from conftest import Run, write_jsonl

OWN = {"experiment": "a", "wandb_group": [1], "nothing_at_all": None}
LIMIT = ("--max-padding", "99%")


def saved(folder: Path, more: dict[str, Any], **others: Any) -> str:
    rows = [{"text": "word " * (n % 17 + 1)} for n in range(60)]
    write_jsonl(folder / "t.jsonl", rows)
    values = {
        "datasets": [{"path": "json", "data_files": "t.jsonl"}],
        "packing": False,
        "max_length": 9,
        "seed": 1,
        **more,
        **others,
    }
    (folder / "sft.json").write_text(json.dumps(values))
    return "sft.json"


def test_the_report_rests_on_them(run: Run, tmp_path):
    with_them, without = (run("preflight", saved(tmp_path, more), "--json") for more in (OWN, {}))
    found, expected = (json.loads(each.stdout) for each in (with_them, without))
    assert found["config"]["assumes_unused"] == ["experiment", "wandb_group"]
    assert expected["config"]["assumes_unused"] == []
    assert found["strategy"] == expected["strategy"]
    shown = run("preflight", saved(tmp_path, OWN))
    assert shown.returncode == 0
    words = " ".join(shown.stdout.split())
    of_corpus, _, rest = words.partition(
        " if holds only if these keys change no data or batches: experiment, wandb_group; to be "
        "sure, run batchstat run --dry-run"
    )
    assert of_corpus.startswith("profile ")
    assert " config " in rest
    given = ("--ignore-keys", "experiment", "--ignore-keys", "wandb_group")
    shown = run("preflight", saved(tmp_path, OWN), *given)
    assert "holds only if" not in shown.stdout
    compared = run("compare", "--current", saved(tmp_path, OWN), "--no-plots")
    assert "holds only if these keys change no data or batches: experiment" in compared.stderr


def test_a_check_needs_to_know_them(run: Run, tmp_path):
    config = saved(tmp_path, OWN)
    refused = run("check", "--current", config, *LIMIT)
    assert refused.returncode == 2
    remedy = 'ignore-keys = ["experiment", "wandb_group"]'
    assert 'unknown keys "experiment", "wandb_group": if they change' in refused.stderr
    assert remedy in refused.stderr
    (tmp_path / "batchstat.toml").write_text(
        f'current = "{config}"\n{remedy}\n[limits]\nmax-padding = "99%"\n'
    )
    assert run("check").returncode == 0
    names = ("experiment", "wandb_group")
    flags = [part for name in names for part in ("--ignore-keys", name)]
    assert run("check", "--no-config", "--current", config, *flags, *LIMIT).returncode == 0


def test_check_in_python_needs_to_know_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config, limits = saved(tmp_path, OWN), {"max-padding": "99%"}
    with pytest.raises(batchstat.OptionError, match=r"set ignore-keys = \[\"experiment\""):
        batchstat.check(None, limits, current=config)
    names = ("experiment", "wandb_group")
    assert not batchstat.check(None, limits, current=config, ignore_keys=names).failures
    # What is compared rests on them, and says so.
    made = batchstat.compare(current=config)
    assert "holds only if these keys change no data or batches" in made.warnings[0].message
    assert "holds only if" in batchstat.find_buckets(current=config).warnings[0].message


def test_a_misspelt_one_is_an_error_with_all_of_them(tmp_path):
    more = {"packin": True, "zzz": 1, "max_len": 3}
    path = tmp_path / saved(tmp_path, more)
    message = (
        r"unknown keys 'packin' \(did you mean 'packing'\?\), 'zzz', 'max_len' \(did you mean "
        r"'max_length'\?\): correct or remove them"
    )
    with pytest.raises(batchstat.OptionError, match=message):
        read_setup(path, "trl")
    assert read_setup(path, "trl", tuple(more)).assumed == ()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_key_of_a_trainer_is_taken_for_another_one_misspelt(name):
    """Keys that are known to decide nothing are silent, however like others they are."""
    trainer = CONFIGURATIONS[name]
    own = dict.fromkeys(trainer.unused, "x")
    setup = setup_of(own, name, Path("a.yaml"))
    assert setup.assumed == ()
    assert set(setup.unused) == {key for key in own if key in trainer.unused}
