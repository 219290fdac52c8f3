"""What the what-if panel of a page plans with: lengths, parameters, and lines to copy."""

import shlex
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from batchstat.calibration.cost_model import CostModel
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import request_row
from batchstat.render.command_lines import flags
from batchstat.render.html.embedding import histogram, is_small, packed
from batchstat.render.toml import setting
from batchstat.simulation.comparison import Comparison
from batchstat.simulation.epoch_lengths import EpochLengths

STRATEGIES = ("static", "bucketed", "token-budget", "packed")

_CONTROLS = (
    *("tokens_per_batch", "batch_size", "max_length", "overflow", "read_ahead", "world_size"),
)
"""Settings that the panel changes."""


def what_if(comparison: Comparison, words: Sequence[str] = ()) -> dict[str, Any]:
    """Return the data of the panel.

    Args:
        comparison: the report.
        words: those that end the command, such as the results folder.
    """
    basis, epoch = comparison.basis, comparison.lengths
    fixed = _fixed(basis, comparison.model)
    # A reader of the page may have a configuration of their own.
    ending = [*(word for word in words if word != "--no-config"), "--no-config"]
    lengths = _lengths(epoch)
    refusal = epoch.refusal
    if comparison.is_timed:
        refusal = "its times are those of a calibrated device, which it does not compute"
    if not is_small(lengths):
        refusal = f"the corpus has {len(epoch.stats.values):,} different lengths, too many for it"
    return {
        "samples": epoch.stats.count,
        "disabled": refusal or None,
        "lengths": None if refusal else lengths,
        "order": epoch.order,
        "strategies": {name: request_row(name, basis).params for name in STRATEGIES},
        "command": shlex.join(["batchstat", "compare", *flags(fixed), *ending]),
        "toml": "".join(
            f"{setting(key.replace('_', '-'), value)}\n" for key, value in fixed.items()
        ),
    }


def _fixed(basis: ResolvedSettings, model: CostModel | None) -> dict[str, Any]:
    """Return what the panel does not change and is not at its default, by the names of flags."""
    usual = {each.name: each.default for each in fields(Settings)}
    found = {
        key: getattr(basis, key)
        for key, default in usual.items()
        if key not in _CONTROLS and getattr(basis, key) != default
    }
    return found if model is None else found | {"model": _shape(model)}


def _shape(model: CostModel) -> str:
    """Return a model as `--model` reads it."""
    pairs = [
        f"{each.name}={str(value).lower()}"
        for each in fields(model)
        if (value := getattr(model, each.name)) != each.default
    ]
    return ",".join(pairs)


def _lengths(epoch: EpochLengths) -> dict[str, Any]:
    if epoch.lengths is not None:
        data, (values,) = packed(epoch.lengths)
        return {"kind": "order", "values": values, "counts": 0, "data": data}
    return histogram(epoch.stats)
