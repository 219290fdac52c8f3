"""What verl's FSDP engine decides about batches: ranks, and to what multiple rows are padded.

Checked against verl 0.9.1: `FSDPEngine` of verl/workers/engine/fsdp/transformer_impl.py.
"""

from collections.abc import Mapping
from typing import Any

from batchstat.errors import OptionError

ENGINES = ("fsdp", "fsdp2")
"""Engines whose batches are modelled, by `strategy`."""


def data_parallel_ranks(values: Mapping[str, Any], where: str, others: int, keys: str) -> int:
    """Return the number of ranks that have batches of their own.

    Args:
        values: keys of the configuration.
        where: the configuration, for messages.
        others: GPUs that share a batch.
        keys: the keys that say so, for messages.
    """
    gpus = values["trainer.nnodes"] * values["trainer.n_gpus_per_node"]
    if gpus % others:
        raise OptionError(
            f"{where}: {keys}={others} does not divide {gpus} GPUs: change trainer.n_gpus_per_node"
        )
    return int(gpus // others)


def fsdp_multiple(values: Mapping[str, Any], where: str, table: str, others: int) -> int:
    """Return what the tokens of a batch are padded to a multiple of.

    Args:
        values: keys of the configuration.
        where: the configuration, for messages.
        table: the table of the engine.
        others: GPUs that share a batch: its sequence parallelism.
    """
    bucket: int = values[f"{table}.pad_to_length_bucket"]
    if not values[f"{table}.pad_to_length"]:
        return others
    if bucket % others:
        raise OptionError(
            f"{where}: {table}.pad_to_length_bucket={bucket} with "
            f"{table}.ulysses_sequence_parallel_size={others} is not modelled: make it a multiple"
        )
    return bucket
