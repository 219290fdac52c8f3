"""What rows cost: a transformer's matrices counted one by one, and rows really padded."""

import json

import pytest

from batchstat import InputError, OptionError
from batchstat.simulation.cost_model import CostModel, load_model


def operations(width: int, matrices: list[tuple[int, int]], layers: int, hidden: int, head: int):
    """Multiplications and additions of a row, matrix by matrix, pair of tokens by pair."""
    total = 0
    for _ in range(layers):
        for rows, columns in matrices:
            total += 2 * width * rows * columns
        total += 2 * width * width * hidden  # scores
        total += 2 * width * width * hidden  # values
    return total + 2 * width * hidden * head


@pytest.mark.parametrize("width", [1, 7, 512])
def test_bert_matrix_by_matrix(width):
    model = load_model("hidden=768,layers=12,vocabulary=30522")
    matrices = [(768, 768)] * 4 + [(768, 3072), (3072, 768)]
    expected = operations(width, matrices, 12, 768, 30522)
    assert model.linear * width + model.quadratic * width**2 == expected


def test_llama_matrix_by_matrix():
    model = load_model(
        "hidden=4096,layers=32,intermediate=14336,heads=32,kv_heads=8,gated=true,vocabulary=128256"
    )
    matrices = [(4096, 4096)] * 2 + [(4096, 1024)] * 2 + [(4096, 14336)] * 3
    assert model.linear + model.quadratic == operations(1, matrices, 32, 4096, 128256)


def test_wide_heads_and_experts_matrix_by_matrix():
    """Qwen3's small models have 16 heads of 128 at 1,024; mixtures send a token to several."""
    model = load_model("hidden=1024,layers=28,intermediate=3072,heads=16,kv_heads=8,head_dim=128")
    matrices = [(1024, 2048)] * 2 + [(1024, 1024)] * 2 + [(1024, 3072)] * 2
    assert model.linear * 5 + model.quadratic * 25 == operations(5, matrices, 28, 2048, 0)
    mixture = CostModel(hidden=64, layers=1, experts=2)
    one = CostModel(hidden=64, layers=1)
    assert mixture.linear - one.linear == 2 * 2 * 64 * 256


def test_the_ratio_of_its_terms_is_the_one_that_verl_uses():
    """24,576 tokens cost as much as their square at hidden 4,096: 6 x hidden."""
    model = CostModel(hidden=4096, layers=32)
    assert model.linear == 24_576 * model.quadratic


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 99},
            CostModel(hidden=64, layers=3, vocabulary=99, heads=4),
        ),
        (
            {
                "model_type": "llama",
                "hidden_size": 64,
                "num_hidden_layers": 2,
                "intermediate_size": 172,
                "num_attention_heads": 8,
                "num_key_value_heads": 2,
                "vocab_size": 99,
            },
            CostModel(
                hidden=64,
                layers=2,
                intermediate=172,
                vocabulary=99,
                heads=8,
                kv_heads=2,
                head_dim=8,
                gated=True,
            ),
        ),
        (
            {"model_type": "t5", "d_model": 64, "d_ff": 100, "num_layers": 2, "num_heads": 4},
            CostModel(
                hidden=64, layers=2, intermediate=100, vocabulary=32128, heads=4, head_dim=64
            ),
        ),
    ],
)
def test_a_folder_with_a_configuration(tmp_path, config, expected):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("hidden=768", OptionError, "has no layers: write hidden=768,layers=12"),
        ("layers=3", OptionError, "has no hidden"),
        ("hidden=x,layers=3", OptionError, "hidden='x': must be a whole number"),
        ("hidden=0,layers=3", OptionError, "hidden=0"),
        (
            "hiden=768,layers=3",
            OptionError,
            "unknown parameter of model 'hiden': did you mean 'hid",
        ),
        ("hidden=768,layers=3,hidden=3", OptionError, "'hidden' of model is given twice"),
        ("hidden=768,layers=3,heads=12,kv_heads=24", OptionError, "must be at most heads=12"),
        ("hidden=768,layers=3,gated=yes", OptionError, "gated='yes': must be true or false"),
        ("bert-base-cased", InputError, "not a folder with config.json"),
        ("x" * 300, InputError, "not a folder with config.json"),
    ],
)
def test_models_that_cannot_be_meant(written, error, message):
    with pytest.raises(error, match=message):
        load_model(written)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "unheard-of"}', "{}"])
def test_configurations_that_cannot_be_read(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_attention_heads"])
@pytest.mark.parametrize("size", [True, 768.5, "768", [768], -1, 10**30])
def test_a_size_of_another_type_is_not_taken_for_a_number(tmp_path, key, size):
    config = {"model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(config | {key: size}))
    with pytest.raises(InputError, match="cannot be read"):
        load_model(str(tmp_path))
