"""What a run is to do."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "BATCHSTAT_RUN"
"""The environment variable by which the processes of a run get it."""


@dataclass(frozen=True, repr=False)  # which would show the key
class Orders:
    """What a run is to do, as the environment of its processes says it.

    Attributes:
        folder: where processes write.
        run_id: of the run.
        key: of the digests of samples; it is never written.
        steps: after how many steps the command is ended; 0 for all.
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
        """Return those of the run that started this process."""
        known = json.loads(os.environ[VARIABLE])
        return cls(**{**known, "key": bytes.fromhex(known["key"])})

    def as_environment(self) -> dict[str, str]:
        """Return the variable by which the processes of a run get them."""
        return {VARIABLE: json.dumps({**vars(self), "key": self.key.hex()})}
