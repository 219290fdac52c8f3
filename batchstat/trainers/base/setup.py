"""`TrainingSetup`: what a trainer's configuration means in batchstat's settings."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from batchstat.planning.settings import ResolvedSettings
from batchstat.trainers.base.keys import Key, TrainerConfig
from batchstat.trainers.base.rules import TrainingRules
from batchstat.words import printable


def as_yaml(keys: Mapping[str, Any]) -> str:
    """Return keys with their values as YAML has them: `packing: true`."""
    return ", ".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in keys.items()
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSetup(TrainingRules):
    """What a trainer does with a corpus: the rules of its configuration, and their source."""

    framework: str
    title: str
    version: str
    path: Path
    own_keys: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # its keys that are known to have no influence on batches
    assumed: tuple[str, ...] = ()
    dtype: str | None = None  # the dtype that the configuration says it computes in
    gradient_checkpointing: bool | None = None

    def with_batching(self, **changed: Any) -> "TrainingSetup":
        """Return the setup with other values for fields of `batching`."""
        return replace(self, batching=replace(self.batching, **changed))

    def with_own_keys(self, message: str) -> str:
        """Add to a message the own keys of its settings: "; in a.yaml, batch_size is …"."""
        translations = []
        for name, own_key in self.own_keys.items():
            # A name after ":" or "," is a parameter in a strategy, `static:batch_size=8`.
            if re.search(rf"(?<![\w:,]){name}\b", message):
                translations.append(f"{name} is {own_key}")
        where = f"; in {self.path.as_posix()}, "
        return message + where + " and ".join(translations) if translations else message

    @property
    def assumption(self) -> str:
        """A warning that keys nobody knows are assumed to decide nothing; else empty."""
        if not self.assumed:
            return ""
        keys = ", ".join(printable(key[:60]) for key in self.assumed)
        return (
            f"holds only if these keys change no data or batches: {keys}; to be sure, run "
            "batchstat run --dry-run and the command that trains"
        )

    @property
    def no_corpus(self) -> str:
        """The message for a configuration whose corpus is needed, but not named or not readable."""
        why = self.corpus.unreadable or "names no corpus: pass its files as CORPUS"
        return f"{self.path.as_posix()} {why}"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """How the configurations of a framework are read."""

    title: str
    python: str
    config: type[TrainerConfig]
    read: Callable[[Any], TrainingRules]  # given an instance of `config`, returns what it means
    own_keys: Mapping[str, str] = field(default_factory=dict)
    stands_for: tuple[str, ...] = ()
    weight_remedy: Callable[[ResolvedSettings, str], str] = field(default=lambda *_: "")
    alternatives: Callable[[Any], Iterator[dict[str, Any]]] = field(default=lambda _: iter(()))

    @property
    def keys(self) -> Mapping[str, Key]:
        """The keys that decide about batches."""
        return self.config.keys()

    @property
    def unused(self) -> frozenset[str]:
        """The keys that are known not to decide about batches."""
        return self.config.unused()

    @property
    def package(self) -> str:
        """The name of the trainer's package on PyPI."""
        return self.config.recorded().package

    @property
    def version(self) -> str:
        """The version whose rules these are."""
        return self.config.recorded().version

    def written(self, keys: Mapping[str, Any], path: Path | None = None) -> str:
        """Return keys as users write them: `packing: true in a.yaml`, `SFTConfig(packing=True)`."""
        if path is not None and path.suffix == ".json":
            as_json = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
            return f"{', '.join(as_json)} in {path.as_posix()}"
        if path is not None and path.suffix:
            return f"{as_yaml(keys)} in {path.as_posix()}"
        arguments = ", ".join(
            f"{key}={json.dumps(value) if isinstance(value, str) else repr(value)}"
            for key, value in keys.items()
        )
        if path is not None:  # the class of an object's arguments, whose version is its own
            return f"{path.name}({arguments})"
        # A note for users of earlier versions, in which the argument has another name.
        is_renamed = "train_sampling_strategy" in keys
        note = "  # group_by_length=True before transformers 5.2" if is_renamed else ""
        return f"{self.python}({arguments}){note}"

    @property
    def other_version(self) -> str:
        """The version that is installed here if these rules are of another one; else empty."""
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return ""
        # With a dot after both, so that 5.1 is not taken for the beginning of 5.10.
        return "" if f"{installed}.".startswith(f"{self.version}.") else installed

    def knows(self, key: str) -> bool:
        """Return whether the framework has a key of this name."""
        return key in self.keys or key in self.unused
