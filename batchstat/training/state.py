"""Position of a training run, and checks that what resumes from it is the same."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from batchstat.errors import OptionError
from batchstat.parameters import MOST_RANKS, whole_number
from batchstat.planning.samples import Samples
from batchstat.planning.strategies.spec import RowRequest
from batchstat.storage.sealed_records import plain, shown, unseal

SCHEMA = "batchstat.sampler/5"
_NAMES = 1000  # most class names in a fingerprint; the codes cover all of them in any case


def digest(*arrays: npt.NDArray[np.integer]) -> str:
    """Return a digest of the numbers in arrays, whatever their integer type."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return f"sha256:{hashed.hexdigest()}"


def check_rank(rank: int, world_size: int) -> None:
    """Raise OptionError if `rank` is not one of `world_size` ranks."""
    whole_number("world_size", world_size, max_value=MOST_RANKS)
    if not 0 <= whole_number("rank", rank, min_value=0) < world_size:
        raise OptionError(f"rank={rank}", f"must be below world_size={world_size}")


def fingerprint(samples: Samples, request: RowRequest) -> dict[str, Any]:
    """Return what the batches and their weights depend on, except for the epoch and the rank:
    digests of the samples, labels and trained tokens, the strategy, and the settings. A sampler
    resumes only where all of these are the same.
    """
    settings = asdict(request.settings)
    # The position has the epoch; the loss, and mostly where ranks wait, is for reports alone.
    del settings["epoch"], settings["loss"]
    if not request.strategy.uses_wait:
        del settings["wait"]
    classes, trained = samples.classes, samples.trained
    return {
        "lengths": digest(samples.records, samples.lengths),
        "labels": None if classes is None else [digest(classes.codes), *classes.names[:_NAMES]],
        "trained tokens": None if trained is None else digest(trained.edges, trained.offsets),
        "strategy": {"name": request.name, **request.params},
        **settings,
    }


def check_same_sampler(
    state: Mapping[str, Any],
    fingerprint: Mapping[str, Any],
    schema: str = SCHEMA,
    numbers: Sequence[str] = ("epoch", "batches"),
) -> None:
    """Raise OptionError unless an equal sampler of this version saved `state`, which is unchanged.
    The message says what is wrong, or which settings differ.
    """
    if not isinstance(state, Mapping) or "schema" not in state:
        raise OptionError(f"{type(state).__name__} is not a sampler state", "pass state_dict()'s")
    if not (isinstance(state["schema"], str) and state["schema"] == schema):
        raise OptionError(
            f"unsupported state version {shown(state['schema'])} (expected {schema})",
            "restart the epoch",
        )
    # A stream's source has a state of its own, which the seal does not cover.
    sealed = {key: value for key, value in state.items() if key != "source"}
    for key in (*numbers, "fingerprint"):
        if key not in sealed:
            raise OptionError(f"the state has no {key}", "pass the complete result of state_dict()")
    for key in numbers:
        # A stream may be long.
        whole_number(key, sealed[key], min_value=0, max_value=2**63 - 1)
    saved = sealed["fingerprint"]
    if not isinstance(saved, Mapping):
        raise OptionError(
            f"the state's fingerprint is {shown(saved)}", "pass state_dict()'s result"
        )
    try:
        unseal(sealed, schema)
    except ValueError as error:
        raise OptionError(f"cannot use the state: {error}", "pass state_dict()'s result") from None
    differences = [
        f"{key} differ"
        if key in ("lengths", "labels", "trained tokens")  # digests, which would tell nobody more
        else f"{key} {plain(saved.get(key))} then, {plain(fingerprint.get(key))} now"
        # Keys that only one of the two has count as differences, too.
        for key in (*fingerprint, *(key for key in saved if key not in fingerprint))
        # As JSON represents them, since a state may have been in a file.
        if plain(saved.get(key)) != plain(fingerprint.get(key))
    ]
    if differences:
        raise OptionError(f"the state is from a different sampler: {'; '.join(differences)}")
