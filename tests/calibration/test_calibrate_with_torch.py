"""Training steps of real models, on the CPU."""

import json
import re
import signal
import subprocess
import sys
import time
import weakref
from functools import partial
from pathlib import Path

import pytest

from batchstat.calibration import measuring
from batchstat.calibration.calibrate import calibrate
from batchstat.calibration.calibration import load_calibration
from batchstat.calibration.measured import Shape
from batchstat.calibration.measuring import BatchTooLargeError
from batchstat.calibration.setup import Setup
from batchstat.errors import InputError
from conftest import environment, needs

pytestmark = pytest.mark.torch

SMALL = {"vocab_size": 200, "max_position_embeddings": 128}
BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    **SMALL,
}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    **SMALL,
}
MODELS = {
    "bert": BERT,
    "classifier": {**BERT, "architectures": ["BertForSequenceClassification"]},
    "tagger": {**BERT, "architectures": ["BertForTokenClassification"]},
    "llama": LLAMA,
    "reward model": {**LLAMA, "architectures": ["LlamaForSequenceClassification"]},
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 128,
        "vocab_size": 200,  # its own, of 50,257, takes ten times as long
    },
}


@pytest.fixture(autouse=True)
def _torch(monkeypatch):
    """Torch, and timings that need not be exact."""
    monkeypatch.setattr(measuring, "TIMING_ROUNDS", 1)
    monkeypatch.setattr(measuring, "_LEAST_SECONDS", 0.0)
    return needs("torch")


@pytest.fixture
def folder_of(tmp_path):
    def make(config):
        path = tmp_path / "model"
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        return path

    return make


def device_of(folder, setup):
    import torch
    from transformers import AutoConfig

    from batchstat.calibration.torch_device import TorchDevice
    from batchstat.calibration.torch_steps import ModelSteps

    steps = ModelSteps(AutoConfig.from_pretrained(folder), setup, torch.device("cpu"))
    return TorchDevice(torch.device("cpu"), steps)


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_are_measured(folder_of, run, tmp_path, name):
    model = folder_of(MODELS[name])
    result = run("calibrate", "--model", model, "--device", "cpu", "--tokens-per-batch", 512)
    assert result.returncode == 0, result.stderr
    assert "use      batchstat compare --calibration calibration.json" in result.stdout
    found = load_calibration(tmp_path / "calibration.json")
    assert found.most_tokens == 512
    assert found.widest == 128
    assert found.setup.shape is not None
    assert found.setup.shape.layers == 2
    assert found.hardware.device == "cpu"
    assert found.time is not None
    assert found.memory is not None
    assert found.memory.worst is not None
    assert found.memory.worst < 0.2
    largest = max(point.peak for point in found.points)
    assert found.bytes(Shape(4, 128)) == pytest.approx(largest, rel=0.2)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("config", [BERT, LLAMA], ids=["bert", "llama"])
def test_peaks_are_those_of_torchs_own_accounting(folder_of, config, attention):
    import torch
    from torch.distributed._tools.mem_tracker import MemTracker

    device = device_of(folder_of(config), Setup(model="small", shape=None, attention=attention))
    steps = device._steps
    device.warm_up(Shape(1, 8))
    for shape in (Shape(1, 128), Shape(8, 32), Shape(5, 77)):
        found = device.warm_up(shape)
        tracker = MemTracker()
        tracker.track_external(steps._model, steps._optimizer)
        with tracker:
            device.run(shape)
        total = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
        assert max(found.peak, found.update_peak) == pytest.approx(total, rel=0.01)
    weights = sum(each.numel() for each in steps._model.parameters()) * 4
    assert device.fixed == pytest.approx(3 * weights, rel=0.02)  # and two states of AdamW


@pytest.mark.parametrize("vocabulary", [200, 4_000])
def test_gradients_that_accumulation_keeps_are_in_the_peak(folder_of, vocabulary):
    """The peak of a step's second batch, by torch's own accounting."""
    import torch
    from torch.distributed._tools.mem_tracker import MemTracker

    folder = folder_of({**LLAMA, "vocab_size": vocabulary})
    calibration = calibrate(str(folder), device="cpu", tokens_per_batch=512)
    device = device_of(folder, Setup(model="small", shape=None))
    steps = device._steps
    device.warm_up(Shape(1, 8))
    kept = calibration.kept_gradients(True)
    assert kept == sum(each.numel() for each in steps._model.parameters()) * 4
    for point in calibration.points[:3]:
        batch = device._batch(point.shape)
        steps.forward_backward(batch)
        tracker = MemTracker()
        tracker.track_external(steps._model, steps._optimizer)
        gradients = [each.grad for each in steps._model.parameters()]
        tracker.track_external(*gradients)
        with tracker:
            steps.forward_backward(batch)
        total = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
        steps.update()
        assert point.peak < total <= 1.01 * (point.peak + kept)
        assert total >= 0.9 * (point.peak + kept)


def test_positions_of_roberta_begin_after_the_paddings(folder_of):
    config = {**BERT, "model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1}
    folder = folder_of(config)
    assert calibrate(str(folder), device="cpu", tokens_per_batch=128).widest == 64
    with pytest.raises(InputError, match="max_length=65 is above the 64 positions of the model"):
        calibrate(str(folder), device="cpu", max_length=65)


def test_checkpointing_saves_memory_and_mixed_precision_keeps_weights(folder_of):
    model = str(folder_of({**LLAMA, "num_hidden_layers": 4}))
    settings = {"device": "cpu", "tokens_per_batch": 128}
    plain = calibrate(model, **settings)
    saved = calibrate(model, gradient_checkpointing=True, **settings)
    mixed = calibrate(model, dtype="bfloat16", mixed_precision=True, **settings)
    half = calibrate(model, dtype="bfloat16", **settings)
    assert saved.memory.per_token < 0.7 * plain.memory.per_token
    assert mixed.points[0].update_peak == pytest.approx(plain.points[0].update_peak, rel=0.02)
    assert half.points[0].update_peak == pytest.approx(plain.points[0].update_peak / 2, rel=0.05)


def test_a_shape_is_compiled_once(folder_of, monkeypatch):
    """By the front of the compiler, which makes graphs: machine code of them takes a minute."""
    torch = needs("torch")
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))

    config = {**BERT, "num_hidden_layers": 1}
    device = device_of(folder_of(config), Setup(model="small", shape=None, compile=True))
    counters.clear()
    first = device.warm_up(Shape(1, 8))
    compiled = counters["stats"]["unique_graphs"]
    assert compiled > 0
    device.run(Shape(1, 8))
    assert counters["stats"]["unique_graphs"] == compiled
    assert first.peak is None
    assert device.fixed is None


STEP = """
import torch
model = torch.nn.Embedding(50, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []

def step(batch):
    assert batch["input_ids"].max() < 50
    assert batch["input_ids"].shape == batch["attention_mask"].shape == batch["labels"].shape
    optimizer.zero_grad()
    model(batch["input_ids"]).square().mean().backward()
    optimizer.step()

step.vocabulary = 50
number = 3

def named(batch):
    pass

named.vocabulary = "abc"

def one(batch):
    pass

one.vocabulary = 1

def fails(batch):
    raise ValueError("not that shape")

def cancelled(batch):
    import asyncio
    raise asyncio.CancelledError("by its loop")
"""


@pytest.fixture
def own_modules(monkeypatch):
    """Modules that a test imports by the names of another test's are its own."""
    for name in ("train", "leaves", "moves"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which may be as old as its source
    yield
    for name in ("train", "leaves", "moves"):
        sys.modules.pop(name, None)


def test_a_function_is_measured(tmp_path, run_process):
    (tmp_path / "train.py").write_text(STEP)
    flags = ("--device", "cpu", "--max-length", 64, "--tokens-per-batch", 256, "-o", "mine.json")
    result = run_process("calibrate", "--model", "train:step", *flags)
    assert result.returncode == 0, result.stderr
    found = load_calibration(tmp_path / "mine.json")
    assert found.setup.shape is None
    assert found.memory is None
    assert found.time.per_step == pytest.approx(0, abs=1e-4)
    assert (found.widest, found.most_tokens) == (64, 256)


@pytest.mark.usefixtures("own_modules")
def test_what_a_function_prints_is_not_in_the_json(tmp_path, run):
    (tmp_path / "train.py").write_text("def step(batch):\n    print('loss 1.0')\n")
    flags = ("--device", "cpu", "--max-length", 64, "--tokens-per-batch", 256, "--json")
    result = run("calibrate", "--model", "train:step", *flags)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["setup"]["model"] == "train:step"
    assert "loss 1.0" in result.stderr


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize("error", ['RuntimeError("can\'t allocate memory")', "MemoryError()"])
def test_memory_that_ends_on_the_cpu_is_out_of_memory(tmp_path, run, error):
    lines = f"def step(batch):\n    if batch['input_ids'].numel() > 200:\n        raise {error}\n"
    (tmp_path / "train.py").write_text(lines)
    flags = ("--device", "cpu", "--max-length", 64, "--tokens-per-batch", 256, "-o", "mine.json")
    result = run("calibrate", "--model", "train:step", *flags)
    assert result.returncode == 0, result.stderr
    found = load_calibration(tmp_path / "mine.json")
    assert found.too_large > 0
    assert found.most_tokens <= 200
    assert f"{found.too_large} more ran out of memory" in " ".join(result.stdout.split())


def test_weights_that_do_not_fit_are_said_to(folder_of, run):
    model = folder_of({**LLAMA, "vocab_size": 10**13})
    result = run("calibrate", "--model", model, "--device", "cpu")
    assert result.returncode == 3
    assert "the weights of llama do not fit the device" in result.stderr


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("train:none", "model 'train:none' cannot be loaded: AttributeError: module 'train' has"),
        ("nowhere:step", "model 'nowhere:step' cannot be loaded: ModuleNotFoundError: No module"),
        ("train:number", "model 'train:number' cannot be called with a batch: name a function"),
        ("train:named", "model 'train:named' has vocabulary='abc': must be a whole number"),
        ("train:one", "model 'train:one' has vocabulary=1: must be between 2 and 2,147,483,647"),
        ("leaves:step", "model 'leaves:step' cannot be loaded: SystemExit: 3"),
        ("train:fails", "the step fails on 1 x 64: ValueError: not that shape"),
        ("train:cancelled", "the step fails on 1 x 64: CancelledError: by its loop"),
    ],
)
def test_a_function_that_cannot_run_is_one_line(tmp_path, run, model, message):
    (tmp_path / "train.py").write_text(STEP)
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    flags = ("--device", "cpu", "--max-length", 64, "--tokens-per-batch", 64)
    result = run("calibrate", "--model", model, *flags)
    assert result.returncode == 3
    assert message in result.stderr.splitlines()[-1]
    assert result.stderr.count("error: ") == 1
    assert not (tmp_path / "calibration.json").exists()


@pytest.mark.parametrize(
    ("config", "flags", "message"),
    [
        (BERT, ["--device", "cuda"], "device 'cuda' is not available: torch"),
        (BERT, ["--device", "nonsense"], "device 'nonsense' is not available"),
        (LLAMA, ["--attention", "flash_attention_2"], "flash_attention_2 with dtype=float32: set"),
        (
            LLAMA,
            ["--attention", "flash_attention_2", "--dtype", "bfloat16"],
            "transformers cannot build llama: ",
        ),
        (LLAMA, ["--max-length", 256], "max_length=256 is above the 128 positions of the model"),
        ({"model_type": "t5"}, [], "t5 has an encoder and a decoder"),
        ({"model_type": "vit"}, [], "vit is neither a language model nor a classifier"),
        ({"model_type": "new"}, [], "cannot be loaded"),
        ({**LLAMA, "hidden_size": 33}, [], "cannot be loaded: "),
    ],
)
def test_what_cannot_be_measured_is_one_line(folder_of, run, config, flags, message):
    result = run("calibrate", "--model", folder_of(config), "--device", "cpu", *flags)
    assert result.returncode in (2, 3)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_batch_that_no_memory_holds_is_too_large(folder_of):
    device = device_of(folder_of(BERT), Setup(model="small", shape=None))
    with pytest.raises(BatchTooLargeError):
        device.warm_up(Shape(10**12, 128))
    device.warm_up(Shape(1, 128))


def test_an_interrupt_keeps_what_was_measured(folder_of, tmp_path):
    model = folder_of(LLAMA)
    command = [sys.executable, "-m", "batchstat", "calibrate", "--model", str(model)]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--tokens-per-batch", "512", "-o", "kept.json"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    began = time.monotonic()
    try:
        for line in process.stderr:
            if "timing round 2" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert time.monotonic() - began < 300
    assert process.returncode == 130, err
    kept = r"it has the \d+ batches that were measured by then"
    assert re.fullmatch(rf"(.*\n)*wrote kept.json\ninterrupted: {kept}\n", err)
    assert "compare --calibration kept.json" in out
    found = load_calibration(tmp_path / "kept.json")
    assert not found.is_complete
    assert len(found.points) >= 4


def test_a_batch_after_one_that_ran_out_of_memory_finds_nothing_of_it(folder_of):
    import torch

    class Ends(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            ctx.held = Held()
            held.append(weakref.ref(ctx.held))
            return given.view_as(given)

        @staticmethod
        def backward(_ctx, _gradient):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    class Held:
        """Alive as long as the graph."""

    held = []
    device = device_of(folder_of(LLAMA), Setup(model="small", shape=None))
    steps = device._steps
    layer = steps._model.model.layers[0].mlp
    hook = layer.register_forward_hook(lambda *given: Ends.apply(given[-1]))
    with pytest.raises(BatchTooLargeError):
        device.warm_up(Shape(4, 64))
    hook.remove()
    before = []
    layer.register_forward_hook(lambda *_: before.append((steps.gradients(), held[0]())))
    device.run(Shape(1, 64))
    assert before == [(0, None)]


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Triton Error [CUDA]: out of memory",
        "MPS backend out of memory (MPS allocated: 1 GB). Tried to allocate 2 GB",
    ],
)
def test_drivers_and_libraries_run_out_of_memory(message):
    from batchstat.calibration.torch_device import is_out_of_memory

    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


def test_an_update_takes_no_copy_of_the_weights(folder_of):
    """As with the fused AdamW of trainers; torch's own default copies them on CUDA."""
    device = device_of(folder_of(LLAMA), Setup(model="small", shape=None))
    assert device._steps._optimizer.defaults["fused"]
    device.warm_up(Shape(1, 64))
    update_peak = device.warm_up(Shape(1, 64)).update_peak
    assert update_peak <= 1.02 * (device.fixed + device.gradients)


def test_weights_in_float16_stay_numbers(folder_of):
    device = device_of(folder_of(LLAMA), Setup(model="small", shape=None, dtype="float16"))
    for _ in range(3):
        device.run(Shape(2, 32))
    assert all(each.isfinite().all() for each in device._steps._model.parameters())


@pytest.mark.parametrize(
    "head", ["def step(batch):\n    yield", "async def step(batch):\n    return"]
)
def test_a_function_that_only_makes_something_to_run(tmp_path, monkeypatch, head):
    monkeypatch.chdir(tmp_path)
    name = f"steps_{len(head)}"
    Path(f"{name}.py").write_text(f"{head} batch['input_ids'].sum()\n")
    with pytest.raises(InputError, match="does nothing when it is called, since it has yield"):
        calibrate(f"{name}:step", device="cpu", max_length=64, tokens_per_batch=64)


@pytest.mark.usefixtures("own_modules")
def test_a_function_that_goes_to_another_folder(tmp_path, run):
    """As Hydra does: the file is written where the command was given."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moves.py").write_text(
        f"import os\ndef step(batch): os.chdir({str(tmp_path / 'elsewhere')!r})\n"
    )
    flags = ("--device", "cpu", "--max-length", 64, "--tokens-per-batch", 512)
    result = run("calibrate", "--model", "moves:step", *flags, "-o", "here.json")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "here.json").exists()
    assert not (tmp_path / "elsewhere/here.json").exists()
