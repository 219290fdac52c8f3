"""Shapes of well-known models, under short names."""

from collections.abc import Mapping
from typing import Any

from batchstat.errors import InputError
from batchstat.storage.addresses import local_path
from batchstat.words import short

KNOWN_MODELS: Mapping[str, tuple[str, str]] = {
    "bert-base": (
        "google-bert/bert-base-uncased",
        "hidden=768,layers=12,intermediate=3072,heads=12,vocabulary=30522,"
        "tied=true,positions=512,dropout=true,float32_loss=false",
    ),
    "bert-large": (
        "google-bert/bert-large-uncased",
        "hidden=1024,layers=24,intermediate=4096,heads=16,vocabulary=30522,"
        "tied=true,positions=512,dropout=true,float32_loss=false",
    ),
    "roberta-base": (
        "FacebookAI/roberta-base",
        "hidden=768,layers=12,intermediate=3072,heads=12,vocabulary=50265,"
        "tied=true,positions=514,dropout=true,float32_loss=false",
    ),
    "gpt2": (
        "openai-community/gpt2",
        "hidden=768,layers=12,heads=12,vocabulary=50257,"
        "tied=true,positions=1024,activation=gelu_new,dropout=true",
    ),
    "gpt2-xl": (
        "openai-community/gpt2-xl",
        "hidden=1600,layers=48,heads=25,vocabulary=50257,"
        "tied=true,positions=1024,activation=gelu_new,dropout=true",
    ),
    "llama-2-7b": (
        "meta-llama/Llama-2-7b-hf",
        "hidden=4096,layers=32,intermediate=11008,heads=32,kv_heads=32,gated=true,vocabulary=32000,"
        "activation=silu",
    ),
    "llama-3-8b": (
        "meta-llama/Meta-Llama-3-8B",
        "hidden=4096,layers=32,intermediate=14336,heads=32,kv_heads=8,gated=true,vocabulary=128256,"
        "activation=silu",
    ),
    "llama-3-70b": (
        "meta-llama/Meta-Llama-3-70B",
        "hidden=8192,layers=80,intermediate=28672,heads=64,kv_heads=8,gated=true,vocabulary=128256,"
        "activation=silu",
    ),
    "llama-3.2-1b": (
        "meta-llama/Llama-3.2-1B",
        "hidden=2048,layers=16,intermediate=8192,heads=32,kv_heads=8,gated=true,vocabulary=128256,"
        "tied=true,activation=silu",
    ),
    "llama-3.2-3b": (
        "meta-llama/Llama-3.2-3B",
        "hidden=3072,layers=28,intermediate=8192,heads=24,kv_heads=8,gated=true,vocabulary=128256,"
        "tied=true,activation=silu",
    ),
    "mistral-7b": (
        "mistralai/Mistral-7B-v0.1",
        "hidden=4096,layers=32,intermediate=14336,heads=32,kv_heads=8,gated=true,vocabulary=32000,"
        "activation=silu",
    ),
    "mixtral-8x7b": (
        "mistralai/Mixtral-8x7B-v0.1",
        "hidden=4096,layers=32,intermediate=14336,heads=32,kv_heads=8,gated=true,experts=2,"
        "vocabulary=32000,total_experts=8,activation=silu",
    ),
    "qwen2-0.5b": (
        "Qwen/Qwen2-0.5B",
        "hidden=896,layers=24,intermediate=4864,heads=14,kv_heads=2,gated=true,vocabulary=151936,"
        "tied=true,activation=silu",
    ),
    "qwen2.5-1.5b": (
        "Qwen/Qwen2.5-1.5B",
        "hidden=1536,layers=28,intermediate=8960,heads=12,kv_heads=2,gated=true,vocabulary=151936,"
        "tied=true,activation=silu",
    ),
    "qwen2.5-7b": (
        "Qwen/Qwen2.5-7B",
        "hidden=3584,layers=28,intermediate=18944,heads=28,kv_heads=4,gated=true,vocabulary=152064,"
        "activation=silu",
    ),
    "qwen3-8b": (
        "Qwen/Qwen3-8B",
        "hidden=4096,layers=36,intermediate=12288,heads=32,kv_heads=8,gated=true,vocabulary=151936,"
        "head_norms=true,activation=silu",
    ),
    "smollm2-135m": (
        "HuggingFaceTB/SmolLM2-135M",
        "hidden=576,layers=30,intermediate=1536,heads=9,kv_heads=3,gated=true,vocabulary=49152,"
        "tied=true,activation=silu",
    ),
}
"""By the names that `--model` takes: the repository of a config.json, and fields of `CostModel`."""


def known_shape(name: str) -> str | None:
    """Return the shape of a built-in model, named in any case; None if there is none."""
    model = KNOWN_MODELS.get(name.lower())
    return None if model is None else model[1]


def load_configuration(model_name: str, advice: str, unreachable: str = "") -> Any:
    """Load a configuration without running code from its repository. Raises InputError."""
    from batchstat.tokenization.loading.hub import HUB_NAME, hub_answers, import_quietly

    path = local_path(model_name)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # for example, a name that is too long
        raise not_loaded(model_name, error.strerror or str(error), advice) from None
    if is_folder and not (path / "config.json").is_file():
        raise not_loaded(model_name, "the folder has no config.json", advice)
    is_local = is_file or is_folder
    if not is_local and HUB_NAME.fullmatch(model_name) is None:
        raise not_loaded(model_name, "no such file or folder", advice)
    # Asked first, with one request: the hub's own client retries for 46 s.
    # Offline, a configuration in the local cache is still found.
    offline = not is_local and not hub_answers()
    try:
        config = import_quietly("AutoConfig").from_pretrained(
            path if is_local else model_name,
            local_files_only=is_local or offline,
            trust_remote_code=False,
        )
        config.get_text_config()  # every use of it needs this: fail here, with a message
    except Exception as error:  # transformers passes on anything that a file or the hub causes
        reason = " ".join(str(error).split())[:200]
        if "trust_remote_code" in str(error):
            reason = "it requires trust_remote_code, which batchstat never enables"
        elif offline:
            reason = (
                "no such file or folder, not in the local cache, and Hugging Face's hub not "
                "reachable"
            )
            advice = unreachable or (
                f"on a machine with network, run hf download {model_name} config.json --local-dir "
                f"FOLDER and pass --model FOLDER, or {advice}"
            )
        elif not is_local:
            advice = f"check the name, set HF_TOKEN for a gated one, or {advice}"
        raise not_loaded(model_name, reason, advice) from None
    return config


def not_loaded(model_name: str, reason: str, advice: str) -> InputError:
    """Return the error for a model, with what to do."""
    return InputError(f"model {short(model_name)} cannot be loaded: {reason}", advice)


FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "bert": {"float32_loss": False},
    "roberta": {"float32_loss": False},
    "gpt2": {},
    "llama": {},
    "mistral": {},
    "mixtral": {},
    "qwen2": {},
    "qwen3": {"head_norms": True},
    "qwen3_moe": {"head_norms": True},
    "gemma": {},
    "gemma3_text": {"norms": 4, "head_norms": True},
}
"""By `model_type`, as of transformers 5.24.0, those whose memory is estimated: `CostModel`'s fields
that no configuration states, where they are not the default."""

WITH_POSITIONS = ("bert", "roberta", "gpt2")  # types of models with an embedding per position
