"""What a run is to do."""

from __future__ import annotations

import json
import os

VARIABLE = "BATCHSTAT_RUN"
"""The environment variable by which the processes of a run get it."""


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

    def __init__(
        self,
        folder: str,
        run_id: str,
        key: bytes,
        steps: int = 0,
        is_dry: bool = False,
        without_weights: bool = False,
    ) -> None:
        """Take what a run is to do."""
        self.folder, self.run_id, self.key = folder, run_id, key
        self.steps, self.is_dry, self.without_weights = steps, is_dry, without_weights

    @classmethod
    def of_environment(cls) -> Orders:
        """Return those of the run that started this process."""
        known = json.loads(os.environ[VARIABLE])
        return cls(**{**known, "key": bytes.fromhex(known["key"])})

    def as_environment(self) -> dict[str, str]:
        """Return the variable by which the processes of a run get them."""
        return {VARIABLE: json.dumps({**vars(self), "key": self.key.hex()})}
