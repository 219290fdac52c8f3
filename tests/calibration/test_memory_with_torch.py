"""The estimated memory, against what torch's tracker counts for the models of transformers.

The tracker counts all storages that exist, on CPU. There, dropout keeps numbers of the activations'
dtype, not bytes as on CUDA, so that the models are built without it.
"""

import json

import pytest

from batchstat.calibration.memory_estimate import estimate_memory
from conftest import needs
from tables import pairs_of

pytestmark = pytest.mark.torch

SIZES = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512}
MODELS = {
    "bert": {
        "intermediate_size": 256,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "llama": {"intermediate_size": 172, "num_key_value_heads": 2},
    "mixtral": {
        "intermediate_size": 128,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "qwen3": {"intermediate_size": 192, "num_key_value_heads": 2, "head_dim": 32},
}
CASES = [
    ("float32", "sdpa", False, (4, 160)),
    ("float32", "eager", True, (16, 64)),
    ("bfloat16", "sdpa", True, (32, 32)),
    ("bfloat16", "eager", False, (8, 96)),
    ("mixed", "sdpa", False, (24, 48)),
    ("mixed", "sdpa", True, (12, 80)),
]
LEAST, MOST = 0.95, 1.1
"""Estimated over counted bytes."""
MOST_WITH_BOTH = 1.4
"""With checkpointing and eager attention: the loss and the scores of a layer are counted together,
while memory has first the one, then the other.
"""


@pytest.fixture(autouse=True)
def one_thread():
    torch = needs("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of operations this small, threads take most of the time
    yield
    torch.set_num_threads(threads)


def build(kind, attention):
    transformers = needs("transformers")
    config = transformers.AutoConfig.for_model(kind, **SIZES, **MODELS[kind])
    config.use_cache = False
    is_encoder = kind == "bert"
    auto = transformers.AutoModelForMaskedLM if is_encoder else transformers.AutoModelForCausalLM
    return config, auto.from_config(config, attn_implementation=attention)


def peak_of(model, rows, width, mixed):
    """The most bytes while a second batch is added to the gradients of a first, without the batch
    itself.
    """
    torch = needs("torch")
    trackers = needs("torch.distributed._tools.mem_tracker")
    ids = torch.zeros(rows, width, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[0, -1] = 0  # a batch without padding would have no mask
    tracker = trackers.MemTracker()
    tracker.track_external(model)
    with tracker:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
            loss.backward()
            del loss
            tracker.reset_mod_stats()
    [counted] = tracker.get_tracker_snapshot("peak").values()
    return counted["Total"]


EVERY = [(kind, *case[:3]) for kind in MODELS for case in CASES]
ALIKE = [row for row in EVERY if row[:2] != ("mixtral", "mixed")]
"""Those that are estimated: a mixture of experts is not under mixed precision."""


@pytest.mark.parametrize(("kind", "dtype", "attention", "checkpointing"), pairs_of(ALIKE))
def test_the_peak_is_the_trackers(tmp_path, kind, dtype, attention, checkpointing):
    torch = needs("torch")
    [batch] = [each[3] for each in CASES if each[:3] == (dtype, attention, checkpointing)]
    mixed = dtype == "mixed"
    config, model = build(kind, attention)
    model.to(torch.bfloat16 if dtype == "bfloat16" else torch.float32).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    estimate = estimate_memory(
        str(tmp_path),
        dtype="bfloat16" if mixed else dtype,
        mixed_precision=mixed,
        attention=attention,
        optimizer="sgd",
        gradient_checkpointing=checkpointing,
    )
    measured = peak_of(model, *batch, mixed)
    tokens, width = batch[0] * batch[1], batch[1]
    fit = estimate.memory
    found = fit.fixed + tokens * (fit.per_token + fit.per_pair * width)
    assert fit.fixed < 0.35 * measured  # so that activations matter
    most = MOST_WITH_BOTH if checkpointing and attention == "eager" else MOST
    assert LEAST < found / measured < most
