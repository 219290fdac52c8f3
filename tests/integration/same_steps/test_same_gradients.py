"""Regrouped steps have the gradients and the samples of the steps that are trained today: of a
LLaMA whose samples attend to themselves, under DDP, transformers and TRL on two processes.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from conftest import needs

SCRIPT = Path(__file__).parent / "train_both_ways.py"
SAMPLES = 101


@pytest.mark.torch
@pytest.mark.parametrize("framework", ["ddp", "transformers", "trl"])
def test_steps_regrouped_have_the_same_gradients(warm_python, tmp_path, framework):
    needs("trl")
    output = tmp_path / "found.json"
    warm_python.run(SCRIPT, framework, output, ranks=2, folder=tmp_path, timeout=200)
    found = json.loads(output.read_text())
    assert len(found) == (4 if framework == "ddp" else 1)
    for name, each in found.items():
        assert each["error"] < (1e-12 if "float64" in name else 1e-5), name
        assert len(each["now"]) == len(each["new"]) > 3
        changed = 0
        for now, new in zip(each["now"], each["new"], strict=True):
            assert [len(rank) for rank in now] == [len(rank) for rank in new]
            records, again = ([r for rank in step for b in rank for r in b] for step in (now, new))
            assert Counter(records) == Counter(again)
            changed += now != new
        assert changed == len(each["now"])
        assert len({r for step in each["new"] for rank in step for b in rank for r in b}) == SAMPLES
