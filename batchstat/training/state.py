"""Where training stands, and whether what goes on from there is the same."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from batchstat.batching.spec import parse_strategy
from batchstat.errors import OptionError
from batchstat.given import Given
from batchstat.settings import Basis

SCHEMA = "batchstat.sampler/1"


def digest(*arrays: npt.NDArray[np.integer]) -> str:
    """Of the numbers in arrays, whatever their type."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return f"sha256:{found.hexdigest()}"


def fingerprint(given: Given, spec: str, basis: Basis) -> dict[str, Any]:
    """All that batches depend on but the epoch and the rank."""
    strategy = parse_strategy(spec, asdict(basis))
    settings = {key: value for key, value in asdict(basis).items() if key != "epoch"}
    classes = given.samples.classes
    return {
        "lengths": digest(given.samples.records, given.samples.lengths),
        "labels": None if classes is None else digest(classes.codes),
        "strategy": {"name": spec.partition(":")[0], **asdict(strategy)},
        **settings,
    }


def refuse_other(state: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    """Raises OptionError: no state, one of another version, or of something else, and of what."""
    if not isinstance(state, Mapping) or "schema" not in state:
        raise OptionError(f"{type(state).__name__} is no state of a sampler: give state_dict()'s")
    if state["schema"] != SCHEMA:
        raise OptionError(
            f"a state of {state['schema']}, and this batchstat goes on from {SCHEMA} only: begin "
            "the epoch again"
        )
    if missing := {"epoch", "batches", "fingerprint"} - set(state):
        raise OptionError(f"the state has no {sorted(missing)[0]}: give state_dict()'s, whole")
    before = state["fingerprint"]
    differences = [
        _difference(key, before.get(key), fingerprint.get(key))
        for key in (*fingerprint, *(key for key in before if key not in fingerprint))
        if _plain(before.get(key)) != _plain(fingerprint.get(key))
    ]
    if differences:
        raise OptionError(f"the state is of another sampler: {'; '.join(differences)}")


def _difference(key: str, before: Any, now: Any) -> str:
    if key in ("lengths", "labels"):
        return f"{key} differ"
    return f"{key} {_plain(before)} then, {_plain(now)} now"


def _plain(value: Any) -> Any:
    """As JSON has it: a state may have been in a file."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value
