"""What a run is to do, handed by an environment variable to every process of the command."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "BATCHSTAT_RUN"  # the environment variable by which the processes of a run get it


@dataclass(frozen=True, repr=False)  # which would show the key
class Orders:
    """What a run is to do."""

    folder: str  # where its processes write
    run_id: str  # which its files repeat
    key: bytes  # makes the digests of samples; it is never written to a file
    steps: int = 0  # after how many steps the command is ended; 0 where it is not
    is_dry: bool = False  # whether an epoch of batches is made without training
    without_weights: bool = False  # whether models of transformers are made without weights
    applies: bool = False  # whether padding is cut, or in a dry run checked how
    multiple: int = 0  # to which cut batches are rounded up; 0 for the one that shows
    verdict: str = ""  # the file that says how batches are cut; empty in a dry run

    @classmethod
    def of_environment(cls) -> Orders:
        """Return the orders of the run that started this process."""
        fields = json.loads(os.environ[VARIABLE])
        return cls(**{**fields, "key": bytes.fromhex(fields["key"])})

    def as_environment(self) -> dict[str, str]:
        """Return the environment variable by which the processes of a run get the orders."""
        return {VARIABLE: json.dumps({**vars(self), "key": self.key.hex()})}
