"""`save_baseline`: what `batchstat baseline save` writes, from Python."""

import json

import pytest

import batchstat
from batchstat.errors import OptionError
from conftest import SAMPLE_DATA

CORPUS = SAMPLE_DATA / "corpus.txt"


def test_the_file_is_that_of_the_command(run, tmp_path):
    settings = {"batch_size": 8, "max_length": 256}
    profile = batchstat.profile(CORPUS)
    batchstat.save_baseline(tmp_path / "own.json", profile, current="hf-trainer", **settings)
    flags = ["--current", "hf-trainer", "--batch-size", 8, "--max-length", 256]
    run("baseline", "save", CORPUS, *flags, "--baseline", tmp_path / "command.json")
    assert (tmp_path / "own.json").read_bytes() == (tmp_path / "command.json").read_bytes()


def test_other_checks_stay_and_the_numbers_of_limits_are_stored(tmp_path):
    file, profile = tmp_path / "padding.json", batchstat.profile(CORPUS)
    limits = {"strategy.compute": {"max": 10**9}}
    batchstat.save_baseline(file, profile, limits, batch_size=8, name="first")
    batchstat.save_baseline(file, profile, batch_size=4, name="second")
    checks = json.loads(file.read_text())["checks"]
    assert list(checks) == ["first", "second"]
    assert "strategy.compute" in checks["first"]["numbers"]
    for name, size in (("first", 8), ("second", 4)):
        checked = batchstat.check(profile, {}, batch_size=size, name=name, baseline=file)
        assert checked.status == "pass"
    with pytest.raises(batchstat.InputError, match="not comparable"):
        batchstat.check(profile, {}, batch_size=4, name="first", baseline=file)


def test_a_configuration_with_keys_that_nobody_knows(tmp_path):
    text = (SAMPLE_DATA / "sft.yaml").read_text() + "\nnobody_knows: 1\n"
    (tmp_path / "sft.yaml").write_text(text)
    profile = batchstat.profile(SAMPLE_DATA / "chat.jsonl", messages_column="messages")
    save = {"current": tmp_path / "sft.yaml"}
    with pytest.raises(OptionError, match="nobody_knows"):
        batchstat.save_baseline(tmp_path / "a.json", profile, **save)
    batchstat.save_baseline(tmp_path / "a.json", profile, **save, ignore_keys=["nobody_knows"])
    assert (tmp_path / "a.json").exists()
