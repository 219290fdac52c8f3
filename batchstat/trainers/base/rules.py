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
    """How long training lasts, in epochs or in steps.

    Attributes:
        epochs: number of epochs; 1.5 ends in the middle of the second.
        max_steps: number of optimizer steps, whatever `epochs` is; None if `epochs` decides.
        warmup: number of steps of the warm-up; below 1 its share of all steps.
    """

    epochs: float
    max_steps: int | None = None
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
    """What is read of a corpus, and how it becomes tokens.

    Attributes:
        reading: keywords of `profile` that the configuration decides.
        columns: keywords of `profile` for the columns that a corpus may have; of several that it
            has, the first in this list counts.
        no_columns: what is wrong with a corpus that has none of `columns`, and the remedy.
        refused_columns: given a content such as "messages", returns the columns that would change
            its samples and are not read, each with the remedy.
        unreadable: why the corpus that the configuration names cannot be read, and the remedy;
            empty if it can.
        appends_eos: whether the trainer appends the tokenizer's end-of-sequence token to texts that
            do not end with it.
        eos_column: the column whose texts get that token instead of the completions, where a corpus
            has both.
        answers_template: given the text of a chat template, returns the file of the template that
            the trainer uses in its place, so that assistants' turns are marked, or None if it keeps
            the template. None if the trainer never replaces one.
        check_tokens: given a tokenizer's name, raises InputError if it lacks tokens of a chat
            template that the trainer takes from another tokenizer; None if it takes none.
    """

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
    """Which samples are batched, and how.

    Attributes:
        strategy: the strategy.
        settings: fields of `Settings` that the configuration decides.
        max_length_of_corpus: whether no sample is truncated, even above the tokenizer's maximum.
        prepare: given the corpus and `max_length`, returns the samples that are batched.
    """

    strategy: StrategySpec
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_length_of_corpus: bool = False
    prepare: Preparation = keep_all


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """What the keys of a configuration mean.

    Attributes:
        config: the keys that decide, after the changes that other keys make to their values.
        corpus: what is read.
        batching: what is batched.
        schedule: how long training lasts.
        warnings: caveats of the report.
    """

    config: TrainerConfig
    corpus: CorpusRules = field(default_factory=CorpusRules)
    batching: Batching
    schedule: Schedule
    warnings: tuple[Finding, ...] = ()
