"""The transformers library, and whether the Hugging Face Hub can be reached."""

import os
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""A repository on the hub: OWNER/NAME, or the bare name of an early one."""


def import_quietly(name: str) -> Any:
    """Import an object of transformers without the warning that torch is missing."""
    # transformers reads this variable when it is imported; what the user set stays.
    users_level = os.environ.get("TRANSFORMERS_VERBOSITY")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        return getattr(import_module("transformers"), name)
    finally:
        if users_level is None:
            del os.environ["TRANSFORMERS_VERBOSITY"]


@cache  # a network that swallows requests takes 10 s to be found out
def hub_answers() -> bool:
    """Find out with one request if the hub is reachable: its own client would retry for 46 s."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # any failure to connect, of whichever HTTP library the client uses
        return False
    return True


def snapshot_of(name: str) -> Path | None:
    """Return the cached folder of a repository as the hub, or else the cache, has it; or None."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    repository = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    if not repository.is_dir():
        return None
    try:
        if hub_answers():
            address = hf_hub_url(name, "tokenizer_config.json")
            commit = get_hf_file_metadata(address).commit_hash or ""
        else:
            commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except Exception:  # no such file here, or whatever the hub's client raises
        return None
    folder = repository / "snapshots" / commit
    return folder if commit and folder.is_dir() else None
