"""keys.json of each trainer has the keys that it takes, in the version whose rules are read."""

import json
import os
from importlib.metadata import PackageNotFoundError, version

import pytest
from record_keys import recorded, written

from batchstat.trainers.registry import CONFIGURATIONS


@pytest.mark.torch
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_its_keys_are_those_of_the_installed_trainer(name):
    trainer = CONFIGURATIONS[name]
    try:
        installed = version(trainer.package)
    except PackageNotFoundError:
        pytest.skip(f"{trainer.package} is not installed")
    if trainer.other_version and not os.environ.get("BATCHSTAT_TEST_ALL"):
        pytest.skip(f"{trainer.package} {installed} is installed, not {trainer.version}")
    assert not trainer.other_version
    file = trainer.config.keys_file()
    remedy = f"run python tests/trainers/record_keys.py {file}, and declare keys that decide"
    assert recorded(file) == json.loads(file.read_text(encoding="utf-8")), remedy


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_its_file_is_as_it_is_written(name):
    file = CONFIGURATIONS[name].config.keys_file()
    text = file.read_text(encoding="utf-8")
    content = json.loads(text)
    assert text == written(content), f"run python tests/trainers/record_keys.py {file}"
    assert not {*content["keys"]} & {*content["also"]}


def test_keys_are_read_where_a_configuration_is():
    """Not by commands that have none."""
    from subprocess import run
    from sys import executable

    code = (
        "from batchstat.trainers.registry import CONFIGURATIONS as c\n"
        "from batchstat.trainers.base.keys import TrainerConfig\n"
        "k = TrainerConfig.recorded\n"
        "assert k.cache_info().currsize == 0\n"
        "assert all(each.unused for each in c.values())\n"
        "assert k.cache_info().misses == len(c)"
    )
    assert run([executable, "-c", code], check=False).returncode == 0
