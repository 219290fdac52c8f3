"""`TrainingSetup`: what a trainer's configuration means in batchstat's settings."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from batchstat.errors import printable
from batchstat.trainers.base.keys import Key, TrainerConfig
from batchstat.trainers.base.rules import TrainingRules

_LONGEST_KEY = 60
"""Characters that are shown of a key that nobody knows."""


@dataclass(frozen=True, kw_only=True)
class TrainingSetup(TrainingRules):
    """What a trainer does with a corpus: the rules of its configuration, and where they are from.

    Attributes:
        framework: name of the framework that the configuration is for.
        title: what its configuration is called.
        version: its version whose rules these are.
        path: the configuration.
        own_keys: the keys that decide settings and parameters, by the names of these.
        own: the keys that decide with their values, as they are written.
        unused: those of them that have no influence on batches.
        assumed: those that nobody knows, which are assumed to have none.
        dtype: what the configuration says that it computes in; None if it says nothing.
        gradient_checkpointing: whether the configuration says that activations are computed again;
            None if it says nothing.
    """

    framework: str
    title: str
    version: str
    path: Path
    own_keys: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    dtype: str | None = None
    gradient_checkpointing: bool | None = None

    def with_batching(self, **changed: Any) -> "TrainingSetup":
        """Return it with other fields of what is batched."""
        return replace(self, batching=replace(self.batching, **changed))

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
        why = self.corpus.unreadable or "names no corpus: pass its files as CORPUS"
        return f"{self.path.as_posix()} {why}"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A framework's configuration.

    Attributes:
        title: what its configuration is called.
        config: the record of the keys that decide about batches; keys.json beside it has those that
            do not, its package, and the version whose rules these are.
        read: returns what such a record means. Raises OptionError for keys that contradict each
            other, or a value whose batches are not modelled.
        alternatives: yields changes of keys that may save compute, given what they mean now.
        drops_unknown: whether the trainer itself drops keys that it does not know.
        checkpointing: the key for gradient checkpointing; empty if there is none.
        python: its class in Python, for those who have no file; empty if it has none.
        own_keys: its keys for settings and parameters of strategies, by their names, where it calls
            them otherwise.
        packing: the key that packs samples into rows; empty if there is none.
        needed: keys without which it trains nothing, with their values.
        stands_for: the strategies that have its batches where none of its keys is known.
        weight_remedies: what makes all trained tokens weigh the same, by losses where they do not.
    """

    title: str
    config: type[TrainerConfig]
    read: Callable[[Any], TrainingRules]
    drops_unknown: bool = False
    checkpointing: str = "gradient_checkpointing"
    python: str = ""
    own_keys: Mapping[str, str] = field(default_factory=dict)
    packing: str = ""
    needed: Mapping[str, Any] = field(default_factory=dict)
    stands_for: tuple[str, ...] = ()
    weight_remedies: Mapping[str, str] = field(default_factory=dict)
    alternatives: Callable[[Any], Iterator[dict[str, Any]]] = field(default=lambda _: iter(()))

    @property
    def keys(self) -> Mapping[str, Key]:
        """The keys that decide about batches."""
        return self.config.keys()

    @property
    def unused(self) -> frozenset[str]:
        """The keys that do not."""
        return self.config.unused()

    @property
    def package(self) -> str:
        """The trainer, as it is installed."""
        return self.config.recorded().package

    @property
    def version(self) -> str:
        """The version whose rules these are."""
        return self.config.recorded().version

    def written(self, keys: Mapping[str, Any], path: Path | None = None) -> str:
        """Return keys with their values as their user writes them: as lines of a file, or as the
        arguments of a class in Python.
        """
        if path is not None and path.suffix == ".json":
            as_json = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
            return f"{', '.join(as_json)} in {path.as_posix()}"
        in_file = path is not None and path.suffix != ""  # that of an object is its class
        if in_file or not self.python:
            lines = ", ".join(
                f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
                for key, value in keys.items()
            )
            return lines if path is None else f"{lines} in {path.as_posix()}"
        arguments = ", ".join(
            f"{key}={json.dumps(value) if isinstance(value, str) else repr(value)}"
            for key, value in keys.items()
        )
        renamed = "  # group_by_length=True before transformers 5.2" * (
            "train_sampling_strategy" in keys
        )
        return f"{self.python}({arguments}){renamed}"

    @property
    def other_version(self) -> str:
        """The version that is installed here, if it is another than the one of these rules."""
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return ""
        return "" if f"{installed}.".startswith(f"{self.version}.") else installed

    def knows(self, key: str) -> bool:
        """Whether it has a key."""
        return key in self.keys or key in self.unused
