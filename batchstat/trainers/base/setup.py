"""`TrainingSetup`: what a trainer's configuration means in batchstat's settings."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from batchstat.corpus.options import Content
from batchstat.errors import printable
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.keys import Key, TrainerConfig
from batchstat.trainers.base.samples import Preparation, keep_all

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""Keys that decide what is computed in where they are true, with its name in torch."""
_LONGEST_KEY = 60
"""Characters that are shown of a key that nobody knows."""


@dataclass(frozen=True, kw_only=True)
class EpochSize:
    """How much an epoch has.

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
class TrainingSetup:
    """What a trainer does with a corpus.

    Attributes:
        framework: name of the framework that the configuration is for.
        title: what its configuration is called.
        version: its version whose rules these are.
        path: the configuration.
        config: the keys that decide.
        own: the same with their values, as they are written.
        unused: those of them that have no influence on batches.
        assumed: those that nobody knows, which are assumed to have none.
        strategy: the strategy.
        settings: fields of `Settings` that the configuration decides.
        own_keys: the keys of the configuration that decide settings and parameters, by their names.
        reading: keywords of `profile` that the configuration decides.
        columns: keywords of `profile` for the columns that a corpus may have: those count that come
            first in this list.
        no_columns: what is wrong with a corpus that has none of them, and the remedy.
        refused_columns: returns the columns that change samples of a content, such as "messages",
            and are not read, and the remedies.
        unreadable: why the corpus that the configuration names cannot be read, and the remedy.
        schedule: how long training lasts.
        max_length_of_corpus: whether no sample is truncated, whatever the tokenizer's maximum is.
        prepare: returns which samples are batched, given the corpus and `max_length`.
        appends_eos: whether texts that do not end with the tokenizer's end-of-sequence token get
            one.
        eos_column: the column that gets it instead of completions where a corpus has both.
        answers_template: returns the file of the chat template that replaces another, given its
            text, so that assistants' turns are marked; None where none does.
        turn_ends: tokens that end a turn, after assistants' contents that alone carry loss; empty
            for the one that ends a sequence, None where the template says what carries loss.
        template_of: the tokenizer whose chat template and tokens the model's gets; None if there is
            none.
        loads: how it loads the tokenizer that the configuration names.
        turns: how it tokenizes each turn of a chat by itself; None if it tokenizes whole chats.
        dtype: what the configuration says that it computes in; None if it says nothing.
        gradient_checkpointing: whether the configuration says that activations are computed again;
            None if it says nothing.
        warnings: what the report may not be true of.
    """

    framework: str
    title: str
    version: str
    path: Path
    config: TrainerConfig
    own: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...]
    assumed: tuple[str, ...] = ()
    strategy: StrategySpec
    settings: Mapping[str, Any]
    own_keys: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, Any]
    schedule: Schedule
    columns: tuple[Mapping[str, Any], ...] = ()
    no_columns: str = ""
    refused_columns: Callable[[Content], Mapping[str, str]] = field(default=lambda _: {})
    unreadable: str = ""
    max_length_of_corpus: bool = False
    prepare: Preparation = keep_all
    appends_eos: bool = False
    eos_column: str = ""
    answers_template: Callable[[str], Path | None] | None = None
    turn_ends: tuple[str, ...] | None = None
    template_of: Path | None = None
    loads: TokenizerRules = field(default_factory=TokenizerRules)
    turns: TurnRules | None = None
    dtype: str | None = None
    gradient_checkpointing: bool | None = None
    warnings: tuple[str, ...] = ()

    def with_own_keys(self, message: str) -> str:
        """Return a message that names settings, with the keys of the configuration for them."""
        keys = self.own_keys.items()
        # A parameter of a strategy, which follows : or a comma, is no setting.
        named = [
            f"{name} is {key}" for name, key in keys if re.search(rf"(?<![\w:,]){name}\b", message)
        ]
        where = f"; in {self.path.as_posix()}, "
        return message + where + " and ".join(named) if named else message

    @property
    def assumption(self) -> str:
        """What everything that follows from the configuration rests on; empty if on nothing."""
        if not self.assumed:
            return ""
        keys = ", ".join(printable(key[:_LONGEST_KEY]) for key in self.assumed)
        return (
            f"holds only if these keys change no data or batches: {keys}; to be sure, run "
            "batchstat run --dry-run and the command that trains"
        )

    @property
    def no_corpus(self) -> str:
        """The message where a corpus is needed and neither named nor readable."""
        why = self.unreadable or "names no corpus: pass its files as CORPUS"
        return f"{self.path.as_posix()} {why}"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A framework's configuration.

    Attributes:
        title: what its configuration is called.
        config: the record of the keys that decide about batches.
        unused: names of keys that do not.
        read: returns the `TrainingSetup` of such a record, given its other fields. Raises
            OptionError for keys that contradict each other, or a value whose batches are not
            modelled.
        alternatives: yields changes of keys that may save compute.
        version: the version whose rules these are.
        package: the package whose version that is, as it is installed.
        drops_unknown: whether the trainer itself drops keys that it does not know.
        checkpointing: the key for gradient checkpointing; empty if there is none.
        python: its class in Python, for those who have no file; empty if it has none.
    """

    title: str
    version: str
    config: type[TrainerConfig]
    unused: frozenset[str]
    read: Callable[..., TrainingSetup]
    package: str
    drops_unknown: bool = False
    checkpointing: str = "gradient_checkpointing"
    python: str = ""
    alternatives: Callable[[TrainingSetup], Iterator[dict[str, Any]]] = field(
        default=lambda _: iter(())
    )

    @property
    def keys(self) -> Mapping[str, Key]:
        """The keys that decide about batches."""
        return self.config.keys()

    def written(self, keys: Mapping[str, Any], path: Path | None = None) -> str:
        """Return keys with their values as their user writes them: as lines of a file, or as the
        arguments of a class in Python.
        """
        if path is not None and path.suffix == ".json":
            as_json = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
            return f"{', '.join(as_json)} in {path.as_posix()}"
        in_file = path is not None and path.suffix != ""  # that of an object is its class
        if in_file or not self.python:
            lines = ", ".join(f"{key}: {_as_yaml(value)}" for key, value in keys.items())
            return lines if path is None else f"{lines} in {path.as_posix()}"
        arguments = ", ".join(
            f"{key}={json.dumps(value) if isinstance(value, str) else repr(value)}"
            for key, value in keys.items()
        )
        renamed = "  # group_by_length=True before transformers 5.2" * (
            "train_sampling_strategy" in keys
        )
        return f"{self.python}({arguments}){renamed}"

    def dtype(self, given: Mapping[str, Any]) -> str | None:
        """Return what a configuration says that it computes in; None if it says nothing."""
        return next((name for key, name in _DTYPES.items() if given.get(key) is True), None)

    def gradient_checkpointing(self, given: Mapping[str, Any]) -> bool | None:
        """Return what a configuration says of gradient checkpointing; None if it says nothing."""
        value = given.get(self.checkpointing)
        return value if isinstance(value, bool) else None

    @property
    def other_version(self) -> str:
        """The version that is installed here, if it is another than the one of these rules."""
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return ""
        return "" if f"{installed}.".startswith(f"{self.version}.") else installed

    def decides_nothing(self, key: str) -> bool:
        """Whether a key has no influence on batches."""
        return key in self.unused and key not in self.keys

    def knows(self, key: str) -> bool:
        """Whether it has a key."""
        return key in self.keys or key in self.unused


def _as_yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
