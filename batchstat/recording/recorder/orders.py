"""What a run is to do, handed by an environment variable to every process of the command."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "BATCHSTAT_RUN"  # the environment variable by which the processes of a run get it


@dataclass(frozen=True, repr=False)  # which would show the key
class Orders:
    """What a run is to do.

    Attributes:
        folder: where its processes write.
        run_id: the id of the run, which its files repeat.
        key: makes the digests of samples; it is never written to a file.
        steps: after how many steps the command is ended; 0 where it is not.
        is_dry: whether an epoch of batches is made without training.
        without_weights: whether models of transformers are made without weights.
    """

    folder: str
    run_id: str
    key: bytes
    steps: int = 0
    is_dry: bool = False
    without_weights: bool = False

    @classmethod
    def of_environment(cls) -> Orders:
        """Return the orders of the run that started this process."""
        fields = json.loads(os.environ[VARIABLE])
        return cls(**{**fields, "key": bytes.fromhex(fields["key"])})

    def as_environment(self) -> dict[str, str]:
        """Return the environment variable by which the processes of a run get the orders."""
        return {VARIABLE: json.dumps({**vars(self), "key": self.key.hex()})}
