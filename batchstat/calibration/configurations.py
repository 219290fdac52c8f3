"""Configurations of models of transformers; and, by their type, what these do not say of memory."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from batchstat.errors import InputError
from batchstat.storage.addresses import local_path
from batchstat.words import short


def load_configuration(written: str, otherwise: str, unreachable: str = "") -> Any:
    """Load a configuration with transformers, without running code from its repository.

    Args:
        written: a config.json, the folder of one, or a name on the Hugging Face Hub.
        otherwise: what to do where it cannot be loaded, for messages.
        unreachable: what to do where the hub cannot be reached; by default, to download the
            configuration elsewhere.

    Raises:
        InputError: it cannot be loaded; the message says what to do.
    """
    from batchstat.tokenization.loading.hub import HUB_NAME, hub_answers, import_quietly

    path = local_path(written)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError as error:  # for example, a name that is too long
        raise not_loaded(written, error.strerror or str(error), otherwise) from None
    if is_folder and not (path / "config.json").is_file():
        raise not_loaded(written, "the folder has no config.json", otherwise)
    is_local = is_file or is_folder
    if not is_local and HUB_NAME.fullmatch(written) is None:
        raise not_loaded(written, "no such file or folder", otherwise)
    # Asked first, with one request: the hub's own client retries for 46 s.
    # Offline, a configuration in the local cache is still found.
    offline = not is_local and not hub_answers()
    try:
        config = import_quietly("AutoConfig").from_pretrained(
            path if is_local else written,
            local_files_only=is_local or offline,
            trust_remote_code=False,
        )
        config.get_text_config()  # every use of it needs this: fail here, with a message
    except Exception as error:  # transformers passes on anything that a file or the hub causes
        # On one line, and cut. In the cases below something else is said, or advised.
        reason = " ".join(str(error).split())[:200]
        if "trust_remote_code" in str(error):
            reason = "it requires trust_remote_code, which batchstat never enables"
        elif offline:
            reason = (
                "no such file or folder, not in the local cache, and Hugging Face's hub not "
                "reachable"
            )
            otherwise = unreachable or (
                f"on a machine with network, run hf download {written} config.json --local-dir "
                f"FOLDER and pass --model FOLDER, or {otherwise}"
            )
        elif not is_local:
            otherwise = f"check the name, set HF_TOKEN for a gated one, or {otherwise}"
        raise not_loaded(written, reason, otherwise) from None
    return config


def not_loaded(written: str, reason: str, otherwise: str) -> InputError:
    """Return the error for a model, with what to do."""
    return InputError(f"model {short(written)} cannot be loaded: {reason}: {otherwise}")


class Family(NamedTuple):
    """Models built of the same modules in transformers.

    Attributes:
        has_positions: whether the model has learned embeddings of positions.
        norms: number of norms of width `hidden` in each layer.
        head_norms: whether queries and keys are normalised, each head by itself.
        float32_loss: whether the loss is computed in float32 whatever the weights are.
    """

    has_positions: bool = False
    norms: int = 2
    head_norms: bool = False
    float32_loss: bool = True


FAMILIES: Mapping[str, Family] = {
    "bert": Family(has_positions=True, float32_loss=False),
    "roberta": Family(has_positions=True, float32_loss=False),
    "gpt2": Family(has_positions=True),
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(),
    "qwen3": Family(head_norms=True),
    "qwen3_moe": Family(head_norms=True),
    "gemma": Family(),
    "gemma3_text": Family(norms=4, head_norms=True),
}
"""By `model_type`, as of transformers 5.24.0: those whose memory is estimated."""
