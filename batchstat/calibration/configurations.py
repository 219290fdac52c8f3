"""Configurations of models of transformers; and, by their type, what these do not say of memory."""

from collections.abc import Mapping
from typing import Any

from batchstat.errors import InputError
from batchstat.storage.addresses import local_path
from batchstat.words import short


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
