"""The transformers library, and whether the Hugging Face Hub can be reached."""

import os
import re
from importlib import import_module
from typing import Any

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""A repository on the hub: OWNER/NAME, or the bare name of an early one."""


def import_quietly(name: str) -> Any:
    """Import an object of transformers without the warning that torch is missing.

    transformers reads the variable below when it is imported. It is left unchanged if the user set
    it, and removed otherwise.
    """
    users_level = os.environ.get("TRANSFORMERS_VERBOSITY")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        return getattr(import_module("transformers"), name)
    finally:
        if users_level is None:
            del os.environ["TRANSFORMERS_VERBOSITY"]


def hub_answers() -> bool:
    """Find out with one request whether the hub is reachable.

    Without it, the hub's own client would retry for 46 s before it gives up.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # any failure to connect, of whichever HTTP library the client uses
        return False
    return True
