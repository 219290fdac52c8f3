"""What a configuration means: what is read, what is batched, and how long training lasts."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchstat.corpus.options import Content
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.keys import TrainerConfig
from batchstat.trainers.base.samples import Preparation, keep_all


@dataclass(frozen=True, kw_only=True)
class EpochSize:
    """Size of an epoch.

    Attributes:
        samples: number of samples, before any is repeated.
        batches: batches on each rank.
        steps: optimizer steps.
        world_size: number of ranks.
    """

    samples: int
    batches: int
    steps: int
    world_size: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long training lasts, in epochs or in steps.

    Attributes:
        epochs: number of epochs, which may end inside one.
        max_steps: number of optimizer steps, whatever the epochs are; None if epochs decide.
        warmup: steps of the warm-up, or below 1 its share of all steps.
    """

    epochs: float
    max_steps: int | None = None
    warmup: float = 0.0

    def total_steps(self, epoch: EpochSize) -> int:
        """Return the number of optimizer steps."""
        if self.max_steps is not None:
            return self.max_steps
        return math.ceil(self.epochs * epoch.steps)

    def warmup_steps(self, epoch: EpochSize) -> int:
        """Return how many of the steps are warm-up."""
        if self.warmup >= 1:
            return int(self.warmup)
        return math.ceil(self.total_steps(epoch) * self.warmup)


@dataclass(frozen=True, kw_only=True)
class TokenizerRules:
    """How a trainer loads its tokenizer.

    Attributes:
        kind: the class of transformers.
        options: arguments with which it is loaded.
        added: tokens that are added to it.
        eos_token: the eos_token that it must have, since chats end their turns with it; empty where
            any will do.
        set_eos_token: the eos_token that it gets; empty for its own.
    """

    kind: str = "AutoTokenizer"
    options: Mapping[str, Any] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    eos_token: str = ""
    set_eos_token: str = ""


@dataclass(frozen=True, kw_only=True)
class TurnRules:
    """How a trainer tokenizes chats, turn by turn.

    Attributes:
        special_tokens: tokens that its chat template writes.
        begin: what that writes before each answer, as a part of it.
        thought: the same, tokenized by itself.
        unknown_template: why its chat template is not known, and the remedy; empty if it is.
        reads_slots: whether it reads texts around messages out of the tokenizer's own template.
    """

    special_tokens: tuple[str, ...] = ()
    begin: str = ""
    thought: str = ""
    unknown_template: str = ""
    reads_slots: bool = False


@dataclass(frozen=True, kw_only=True)
class CorpusRules:
    """What is read of a corpus, and how it becomes tokens.

    Attributes:
        reading: keywords of `profile` that the configuration decides.
        columns: keywords of `profile` for the columns that a corpus may have: those count that come
            first in this list.
        no_columns: what is wrong with a corpus that has none of them, and the remedy.
        refused_columns: returns the columns that change samples of a content, such as "messages",
            and are not read, and the remedies.
        unreadable: why the corpus that the configuration names cannot be read, and the remedy.
        appends_eos: whether texts that do not end with the tokenizer's end-of-sequence token get
            one.
        eos_column: the column that gets it instead of completions where a corpus has both.
        answers_template: returns the file of the chat template that replaces another, given its
            text, so that assistants' turns are marked; None where none does.
        turn_ends: tokens that end a turn, after assistants' contents that alone carry loss; empty
            for the one that ends a sequence, None where the template says what carries loss.
        check_tokens: raises InputError for a tokenizer that lacks tokens of the chat template that
            it gets from another one; None where it gets none.
        loads: how it loads the tokenizer that the configuration names.
        turns: how it tokenizes each turn of a chat by itself; None if it tokenizes whole chats.
        warnings: caveats of the counts.
    """

    reading: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[Mapping[str, Any], ...] = ()
    no_columns: str = ""
    refused_columns: Callable[[Content], Mapping[str, str]] = field(default=lambda _: {})
    unreadable: str = ""
    appends_eos: bool = False
    eos_column: str = ""
    answers_template: Callable[[str], Path | None] | None = None
    turn_ends: tuple[str, ...] | None = None
    check_tokens: Callable[[str], None] | None = None
    loads: TokenizerRules = field(default_factory=TokenizerRules)
    turns: TurnRules | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Which samples are batched, and how.

    Attributes:
        strategy: the strategy.
        settings: fields of `Settings` that the configuration decides.
        max_length_of_corpus: whether no sample is truncated, whatever the tokenizer's maximum is.
        prepare: returns which samples are batched, given the corpus and `max_length`.
    """

    strategy: StrategySpec
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_length_of_corpus: bool = False
    prepare: Preparation = keep_all


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """What the keys of a configuration mean.

    Attributes:
        config: the keys that decide, with what others make of them.
        corpus: what is read.
        batching: what is batched.
        schedule: how long training lasts.
        warnings: caveats of the report.
    """

    config: TrainerConfig
    corpus: CorpusRules = field(default_factory=CorpusRules)
    batching: Batching
    schedule: Schedule
    warnings: tuple[str, ...] = ()
