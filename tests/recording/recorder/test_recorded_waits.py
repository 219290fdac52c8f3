"""Where ranks wait for each other, as the wrapper of a model shows in a recording."""

import pytest

from batchstat.planning.rules import WAITS
from batchstat.recording.recording import read_recording
from batchstat.trainers.preflight.current import observe_folder
from conftest import needs

needs("torch")

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
from contextlib import nullcontext
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
import batchstat

folder, kind = sys.argv[1:]
if "RANK" in __import__("os").environ:
    distributed.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(50, 4, padding_idx=0), torch.nn.Linear(4, 1))
if kind == "sharded":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
elif kind != "alone":
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with batchstat.record(folder):
    for place in range(12):
        ids = torch.randint(1, 50, (2, 3 + place % 5))
        ends_step = place % 3 == 2
        with model.no_sync() if kind == "no_sync" and not ends_step else nullcontext():
            model(ids).sum().backward()
        if ends_step:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("kind", "wait"),
    [("no_sync", "step"), ("plain", "micro-batch"), ("sharded", "micro-batch"), ("alone", None)],
)
def test_a_recording_shows_where_ranks_wait(warm_python, tmp_path, kind, wait):
    (script := tmp_path / "train.py").write_text(SCRIPT)
    folder = tmp_path / "run"
    warm_python.run(script, folder, kind, ranks=None if kind == "alone" else 2)
    assert read_recording(folder).wait == wait
    observed = observe_folder(folder)
    assert observed.settings.get("wait", "step") in WAITS
    assert observed.settings.get("wait") == wait
    assert observed.settings["gradient_accumulation_steps"] == 3
