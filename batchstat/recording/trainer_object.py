"""A Trainer object of transformers or TRL: what it says of itself, and what is the user's own."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from typing import Any

from batchstat.errors import InputError
from batchstat.hidden_secrets import hidden_in
from batchstat.recording.collators import Collating, read_collator
from batchstat.recording.prepared_rows import PreparedRows, prepared_rows, why_unreadable
from batchstat.recording.recorder.trainers import facts_of, is_library, own_loader

_ALREADY_DONE = ("packing", "padding_free", "shuffle_dataset", "dataset_num_proc")
"""Arguments of SFTConfig that SFTTrainer has carried out when it made its data set and collator."""

LEAST = {"numpy": (2, 0), "pyarrow": (21,), "transformers": (4, 48)}
"""The least version of each library that batchstat needs beside a trainer, as in pyproject.toml: it
may be installed there without its dependencies, which pip has then not checked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainerObject:
    """What a Trainer object says of itself."""

    kind: str
    framework: str
    arguments: Mapping[str, Any]
    arguments_class: str
    world_size: int
    is_main: bool = True
    rows: PreparedRows | None = None  # the rows of its data set
    collating: Collating | None = None  # what its collator does; None if that is not known
    why_loader: str = ""  # why its loader must be read; empty where it need not
    samples_by_arguments: bool
    own_loss: tuple[str, ...]  # names of what replaces the library's loss; empty if nothing does
    has_decoder: bool
    takes_count: bool
    stream: bool = False  # whether its data set has a sequence of its own
    version: str = ""  # of transformers
    collator: str = ""  # its module and name
    labels: Sequence[str] = ()  # columns of its data set that hold labels
    together: str = ""  # rows of a sample: a "pair", a "group", or empty where that is not known

    def padding_collator(self, has_token_labels: bool) -> str:
        """Return what lets the Trainer pad rows of several lengths, as the end of a sentence; empty
        if its collator does, or is the script's own.
        """
        name = self.collator.rpartition(".")[2] if is_library(self.collator) else ""
        if name == "DataCollatorForLanguageModeling" and "labels" in self.labels:
            return f", and remove the column labels, which {name} makes itself and cannot pad"
        is_default = name in ("default_data_collator", "DefaultDataCollator")
        # DataCollatorWithPadding pads all but labels of tokens.
        if not is_default and not (name == "DataCollatorWithPadding" and has_token_labels):
            return ""
        fitting = "DataCollatorForSeq2Seq" if has_token_labels else "DataCollatorWithPadding"
        return f", and pass data_collator={fitting}(tokenizer) to the Trainer, which then pads"

    @property
    def packs(self) -> bool:
        """Whether rows of a batch hold several samples: packed before, or joined by `collating`."""
        is_joined = self.collating is not None and self.collating.end_to_end
        return is_joined or (self.rows is not None and self.rows.is_packed)


def read_trainer(target: Any) -> TrainerObject:
    """Return what a Trainer says of itself. Raises InputError where its data set has no row. Its
    batches follow from the rows of its data set, where its loader and collator are the library's
    own. Else `why_loader` says why the loader must be read, which takes longer.
    """
    facts = {"version": sys.modules["transformers"].__version__, **facts_of(target)}
    collating = read_collator(target.data_collator)
    rows, why = None, _why_loader(target, collating, facts["collator"])
    if facts["has_decoder"]:
        why = why or "an encoder and a decoder have widths of their own"
    if not why and collating is not None:
        rows = prepared_rows(target.train_dataset, collating)
        if rows is None:
            why = "labels and tokens of its rows differ in number"
        elif not collating.pads and not bool((rows.widths == rows.widths[0]).all()):
            why = "its rows have several widths, which the collator does not pad"
    return replace(
        trainer_of(facts),
        is_main=bool(target.is_world_process_zero()),
        rows=None if why else rows,
        collating=collating,
        why_loader=why,
    )


def trainer_of(facts: Mapping[str, Any]) -> TrainerObject:
    """Return a Trainer from its facts: those of `facts_of`, or of its line in a recording."""
    # Facts have keys that are no field here, such as the version of transformers.
    values = {
        field.name: facts[field.name] for field in fields(TrainerObject) if field.name in facts
    }
    values["own_loss"] = tuple(facts["own_loss"])
    values["arguments"] = hidden_in(facts["arguments"])  # earlier versions recorded them whole
    # SFTTrainer has packed and shuffled its data set: not to be planned again.
    if facts["framework"] == "trl":
        arguments = values["arguments"].items()
        values["arguments"] = {key: value for key, value in arguments if key not in _ALREADY_DONE}
    return TrainerObject(**values)


def _why_loader(target: Any, collating: Collating | None, collator: str) -> str:
    """Return why the batches do not follow from the data set by the library's rules, or ""."""
    if overrides := own_loader(target):
        return f"{type(target).__name__} has its own {overrides[0]}"
    if why := why_unreadable(target.train_dataset):
        return why
    if collating is None:
        name = collator.rpartition(".")[2]
        whose = (
            "has rules that are not known here" if is_library(collator) else "is the script's own"
        )
        return f"the collator {name} {whose}"
    return ""


def check_versions() -> None:
    """Raise InputError if the environment of a trainer is too old."""
    for name, least in LEAST.items():
        current = version(name)
        if tuple(int(part) for part in current.split(".")[: len(least)]) < least:
            needed = ", ".join(f"{key} {'.'.join(map(str, v))}" for key, v in LEAST.items())
            raise InputError(
                f"{name} {current} is too old: beside a trainer batchstat needs {needed}",
                "install it, or start the script by batchstat run from an environment that has it",
            )
