"""The memory of training, estimated from the shape of a model."""

import json
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

import batchstat
from batchstat import CostModel, InputError, OptionError
from batchstat.calibration.known_models import FAMILIES, KNOWN_MODELS
from batchstat.calibration.memory_estimate import BYTES, STATE, estimate_memory
from batchstat.calibration.setup import ATTENTIONS
from conftest import needs
from published import PARAMETERS
from tables import in_turn

SIZES = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1024,
    "vocab_size": 8000,
    "max_position_embeddings": 512,
}
GROUPED = {"num_key_value_heads": 2}
WIDE = {"num_key_value_heads": 2, "head_dim": 96}
MIXTURE = {"num_local_experts": 8, "num_experts_per_tok": 2}
OWN = {
    "gpt2": {"n_inner": 1024, "n_positions": 512},
    "llama": GROUPED,
    "mistral": GROUPED,
    "mixtral": {**GROUPED, **MIXTURE},
    "qwen2": GROUPED,
    "qwen3": WIDE,
    "qwen3_moe": {**WIDE, **MIXTURE, "moe_intermediate_size": 512, "num_experts": 8},
    "gemma": WIDE,
    "gemma3_text": WIDE,
}


@in_turn("name", KNOWN_MODELS)
def test_parameters_are_those_of_published_models(name):
    shape = estimate_memory(name).setup.shape
    assert shape.parameters == pytest.approx(PARAMETERS[name], rel=0.01)


@pytest.mark.torch
@pytest.mark.parametrize("kind", FAMILIES)
def test_parameters_with_torch(tmp_path, kind):
    """Against the model itself, without memory for its weights. BERT's pooler, which language
    modelling has not, is not counted.
    """
    torch, transformers = needs("torch"), needs("transformers")
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **OWN.get(kind, {})})
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    auto = {
        "bert": transformers.AutoModel,
        "roberta": transformers.AutoModel,
    }.get(kind, transformers.AutoModelForCausalLM)
    with torch.device("meta"):
        model = auto.from_config(config)
    real = sum(each.numel() for name, each in model.named_parameters() if "pooler" not in name)
    shape = estimate_memory(str(tmp_path)).setup.shape
    assert shape.parameters == pytest.approx(real, rel=0.01)


SETUPS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(sorted(BYTES)),
        "attention": st.sampled_from(list(ATTENTIONS)),
        "optimizer": st.sampled_from(sorted(STATE)),
    }
)
SHAPES = st.builds(
    lambda heads, head, more, **shape: CostModel(hidden=heads * head, heads=heads, **shape, **more),
    heads=st.integers(2, 16),
    head=st.integers(8, 128),
    layers=st.integers(2, 48),
    vocabulary=st.integers(100, 200_000),
    gated=st.booleans(),
    head_norms=st.booleans(),
    dropout=st.booleans(),
    more=st.sampled_from([{}, {"experts": 2, "total_experts": 8}]),
)


def peak(shape, rows, width, **setup):
    fit = estimate_memory(shape, **setup).memory
    return fit.fixed + rows * width * (fit.per_token + fit.per_pair * width)


@given(SHAPES, SETUPS, st.integers(1, 64), st.integers(1, 4096))
def test_more_takes_more_and_savings_never_take_more(shape, setup, rows, width):
    here = peak(shape, rows, width, **setup)
    assert here < peak(shape, rows + 1, width, **setup)
    assert here < peak(shape, rows, width + 1, **setup)
    assert here < peak(replace(shape, layers=shape.layers + 1), rows, width, **setup)
    assert peak(shape, rows, width, **{**setup, "attention": "flash_attention_2"}) <= here
    assert peak(shape, rows, width, **{**setup, "optimizer": "sgd"}) <= here
    if setup["attention"] == "eager" and shape.gated:
        return  # probabilities in float32 are kept beside those in the dtype of the weights
    assert peak(shape, rows, width, **{**setup, "dtype": "bfloat16"}) <= peak(
        shape, rows, width, **{**setup, "dtype": "float32"}
    )


@given(SHAPES, SETUPS, st.integers(1, 64), st.integers(1, 4096))
def test_checkpointing_never_takes_more(shape, setup, rows, width):
    with_it = peak(shape, rows, width, gradient_checkpointing=True, **setup)
    assert with_it <= peak(shape, rows, width, **setup)


def test_weights_gradients_and_state_by_hand():
    """In bfloat16, two bytes each of weights, gradients and AdamW's two moments; under mixed
    precision four, and two for a copy.
    """
    weights = estimate_memory("gpt2").setup.shape.parameters
    for setup, expected in (
        ({}, 16),
        ({"optimizer": "sgd"}, 8),
        ({"dtype": "bfloat16"}, 8),
        ({"dtype": "bfloat16", "mixed_precision": True}, 18),
    ):
        assert estimate_memory("gpt2", **setup).memory.fixed == expected * weights


def test_activations_are_those_of_the_paper():
    """Korthikanti et al.: a layer keeps 34 bytes per token and unit of width, and 5 bytes per pair
    and head, in half precision with dropout; of the 34, dropout's masks have 2.
    """
    shape = CostModel(hidden=512, layers=10, heads=8, vocabulary=1, dropout=True)
    setup = {"dtype": "bfloat16", "attention": "eager"}
    one, two = (estimate_memory(replace(shape, layers=n), **setup).memory for n in (10, 11))
    assert two.per_token - one.per_token == 34 * 512
    assert two.per_pair - one.per_pair == 5 * 8


def test_an_estimate_is_a_calibration_that_is_kept(tmp_path):
    from batchstat.calibration.calibration import save_calibration

    found = batchstat.estimate_memory("qwen3-8b", dtype="bfloat16", memory=80 * 2**30)
    assert found.is_estimate
    assert (found.time, found.memory.residual, found.fits) == (None, None, 80 * 2**30)
    (tmp_path / "estimate.json").write_text(save_calibration(found))
    assert batchstat.load_calibration(tmp_path / "estimate.json") == found
    most = found.tokens_that_fit(1024)
    memory = found.cost.memory
    assert memory.peak(most * (memory.per_token + 1024 * memory.per_pair)) <= 80 * 2**30


@in_turn(
    ("model", "options", "error", "message"),
    [
        ("hidden=64,layers=2", {}, InputError, "has no vocabulary, .*: add vocabulary=50257"),
        (
            "hidden=64,layers=2,vocabulary=9",
            {"attention": "eager"},
            InputError,
            "has no heads, .*: add heads=12",
        ),
        (
            "hidden=64,layers=2,vocabulary=9,experts=2",
            {},
            InputError,
            "has no total_experts, .*: add total_experts=8",
        ),
        ("hidden=64,layers=2,experts=4,total_experts=2", {}, OptionError, "at least experts=4"),
        ("gpt2", {"optimizer": "adafactor"}, OptionError, "unknown optimizer 'adafactor'"),
        ("gpt2", {"attention": "flex_attention"}, OptionError, "unknown attention"),
        ("gpt2", {"dtype": "float8"}, OptionError, "unknown dtype 'float8'"),
        ("gpt2", {"mixed_precision": True}, OptionError, "set dtype=bfloat16 or float16"),
        (
            "mixtral-8x7b",
            {"mixed_precision": True, "dtype": "bfloat16"},
            InputError,
            "'mixtral-8x7b' is a mixture of experts, .*: set mixed_precision=false",
        ),
        ("gpt2", {"memory": 0}, OptionError, "memory=0"),
    ],
)
def test_what_cannot_be_estimated(model, options, error, message):
    with pytest.raises(error, match=message) as raised:
        estimate_memory(model, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "t5"}, "memory is not estimated for model_type 't5' .*batchstat calibrate"),
        ({"model_type": "gemma2"}, "memory is not estimated for model_type 'gemma2'"),
        ({"model_type": "llama", "vocab_size": 0}, "has no vocabulary"),
        ({"model_type": "llama", "num_hidden_layers": 0}, "num_hidden_layers"),
    ],
)
def test_configurations_that_lack_something(tmp_path, config, message):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        estimate_memory(str(tmp_path))
