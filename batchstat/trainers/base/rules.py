"""What a configuration means: what is read, what is batched, and how long training lasts."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchstat.corpus.options import Content
from batchstat.findings import Finding
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.keys import TrainerConfig
from batchstat.trainers.base.samples import Preparation, keep_all


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long training lasts, in epochs or in steps."""

    epochs: float
    max_steps: int | None = None  # number of optimizer steps, whatever `epochs` is
    warmup: float = 0.0

    def total_steps(self, steps_per_epoch: int) -> int:
        """Return the number of optimizer steps."""
        if self.max_steps is not None:
            return self.max_steps
        return math.ceil(self.epochs * steps_per_epoch)

    def warmup_steps(self, steps_per_epoch: int) -> int:
        """Return how many of the steps are warm-up."""
        if self.warmup >= 1:
            return int(self.warmup)
        return math.ceil(self.total_steps(steps_per_epoch) * self.warmup)


@dataclass(frozen=True, kw_only=True)
class CorpusRules:
    """What is read of a corpus, and how it becomes tokens."""

    reading: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[Mapping[str, Any], ...] = ()
    no_columns: str = ""
    refused_columns: Callable[[Content], Mapping[str, str]] = field(default=lambda _: {})
    unreadable: str = ""
    appends_eos: bool = False
    eos_column: str = ""
    answers_template: Callable[[str], Path | None] | None = None
    check_tokens: Callable[[str], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Which samples are batched, and how."""

    strategy: StrategySpec
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_length_of_corpus: bool = False
    prepare: Preparation = keep_all


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """What the keys of a configuration mean."""

    config: TrainerConfig
    corpus: CorpusRules = field(default_factory=CorpusRules)
    batching: Batching
    schedule: Schedule
    warnings: tuple[Finding, ...] = ()  # caveats of the report
