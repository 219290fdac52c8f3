"""What rows cost: a transformer's matrices counted one by one, and rows really padded."""

import json
from importlib import import_module

import pytest

import batchstat
from batchstat import InputError, OptionError
from batchstat.calibration.cost_model import CostModel, load_model
from batchstat.calibration.known_models import KNOWN_MODELS
from published import PARAMETERS
from tables import in_turn


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


def test_a_token_costs_as_much_as_pairs_of_six_times_hidden():
    """24,576 tokens cost as much as their square at hidden 4,096: 6 x hidden."""
    model = CostModel(hidden=4096, layers=32)
    assert model.linear == 24_576 * model.quadratic


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 99},
            CostModel(
                hidden=64,
                layers=3,
                vocabulary=99,
                heads=4,
                tied=True,
                positions=1024,
                activation="gelu_new",
                dropout=True,
            ),
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
                activation="silu",
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
def test_a_configuration_in_a_file_a_folder_or_a_cached_repository(
    tmp_path, monkeypatch, config, expected
):
    written = tmp_path / "config.json"
    written.write_text(json.dumps(config))
    assert load_model(str(tmp_path)) == load_model(str(written)) == expected
    cached = tmp_path / "hub" / "models--some-org--some-model"
    (cached / "snapshots" / "1").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1")
    (cached / "snapshots" / "1" / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert load_model("some-org/some-model") == expected


PUBLISHED = PARAMETERS | {"mixtral-8x7b": 12_879_925_248}
"""Parameters of the models as published; of a mixture, those that a token passes through."""

TIED = {"bert", "roberta", "gpt2", "llama-3.2", "qwen2-0.5b", "qwen2.5-1.5b", "smollm2"}
"""Models whose input and output over the vocabulary are the same parameters."""


@in_turn("name", KNOWN_MODELS)
def test_built_in_shapes_have_the_published_number_of_parameters(name):
    """Each parameter of a matrix is one multiplication and one addition per token; what is missing
    are biases, norms and embeddings of positions.
    """
    model = load_model(name)
    assert model.vocabulary is not None
    embeddings = 0 if name.startswith(tuple(TIED)) else model.vocabulary * model.hidden
    assert model.linear / 2 + embeddings == pytest.approx(PUBLISHED[name], rel=0.011)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gpt2", "GPT2Config"),
        ("bert-base", "BertConfig"),
        ("llama-2-7b", "LlamaConfig"),
        ("mistral-7b", "MistralConfig"),
        ("mixtral-8x7b", "MixtralConfig"),
    ],
)
def test_built_in_shapes_are_the_defaults_of_their_classes(tmp_path, name, kind):
    """For transformers, the defaults of a class are the shape of its first model."""
    getattr(import_module("transformers"), kind)().save_pretrained(tmp_path)
    expected, found = load_model(str(tmp_path)), load_model(name)
    assert (found.linear, found.quadratic) == (expected.linear, expected.quadratic)


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("some-org/some-model", "run hf download some-org/some-model config.json"),
        ("Qwen/Qwen2-0.5B", "did you mean 'qwen2-0.5b'?"),
        ("llama3-8b", "did you mean 'llama-3-8b'?"),
    ],
)
def test_without_a_network_a_name_is_refused_with_a_remedy(tmp_path, monkeypatch, written, remedy):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="not in the local cache") as raised:
        load_model(written)
    assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_repository_with_code_of_its_own_is_refused(tmp_path):
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text("raise SystemExit('executed')")
    with pytest.raises(InputError, match="trust_remote_code, which batchstat never enables"):
        load_model(str(tmp_path))


def test_python_takes_what_the_command_line_takes():
    lengths = [5, 30, 20]
    by_name = batchstat.compare(lengths, model="gpt2")
    assert by_name.model == load_model("gpt2")
    found = batchstat.find_buckets(lengths, cost="model", model="gpt2", buckets=2)
    assert found.model == load_model("gpt2")


@in_turn(
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
        ("./nowhere", InputError, "'./nowhere' cannot be loaded: no such file or folder"),
        ("x/" * 150, InputError, "cannot be loaded: no such file or folder"),
        ("x" * 300, InputError, "cannot be loaded: File name too long"),
    ],
)
def test_models_that_cannot_be_meant(written, error, message):
    with pytest.raises(error, match=message):
        load_model(written)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "unheard-of"}', "{}"])
def test_configurations_that_cannot_be_read(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_attention_heads"])
@pytest.mark.parametrize("size", [True, 768.5, "768", [768], -1, 10**30])
def test_a_size_of_another_type_is_not_taken_for_a_number(tmp_path, key, size):
    config = {"model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(config | {key: size}))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(tmp_path))


def test_built_in_names_in_any_case():
    assert load_model("Qwen2-0.5B") == load_model("qwen2-0.5b")
