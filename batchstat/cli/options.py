"""Groups of options that commands share.

They are named as the fields they end in, and None where they are not given, so that every default
is stated once, where the field is.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from batchstat.cli import declared as d

DEFAULT_FOLDER = Path("batchstat-results")

Options = Mapping[str, Any]
"""By the names of a command's parameters: types that say how they are written."""

Command = Callable[..., None]


def takes(*groups: Options) -> Callable[[Command], Command]:
    """Gives a command options, each None unless its type says otherwise or it is required."""

    def given(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name),
                annotation=annotation,
            )
            for group in groups
            for name, annotation in group.items()
        ]
        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return command

    return given


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave an option of `takes`."""
    value = context.params.get(name)
    return value not in (None, [], ()) and value is not _DEFAULTS.get(name)


CORPUS: Options = {"corpus": d.Corpus}
OPTIONAL_CORPUS: Options = {"corpus": d.OptionalCorpus}
READING: Options = {
    "tokenizer": d.Tokenizer,
    "input_format": d.InputFormat,
    "text_column": d.TextColumn,
    "messages_column": d.MessagesColumn,
    "chat_template": d.ChatTemplate,
    "tokens_column": d.TokensColumn,
    "length_column": d.LengthColumn,
    "label_column": d.LabelColumn,
    "header": d.Header,
    "quote": d.Quote,
    "strip": d.Strip,
    "min_chars": d.MinChars,
    "on_error": d.OnError,
    "no_cache": d.NoCache,
    "workers": d.Workers,
    "engine": d.Engine,
    "scheduler": d.Scheduler,
    "parts": d.Parts,
}
PARTIAL: Options = {"allow_partial": d.AllowPartial}
SHARD: Options = {"shard": d.Shard}
TEMPLATE: Options = {"chat_template": d.ChatTemplate}
BATCHING: Options = {
    "tokens_per_batch": d.TokensPerBatch,
    "max_length": d.MaxLength,
    "overflow": d.Overflow,
    "batch_size": d.BatchSize,
    "read_ahead": d.ReadAhead,
    "max_samples": d.MaxSamples,
    "pad_to_multiple_of": d.PadToMultipleOf,
    "drop_last": d.DropLast,
    "world_size": d.WorldSize,
    "deal": d.Deal,
    "tail": d.Tail,
    "accumulate": d.Accumulate,
    "order": d.Order,
    "seed": d.Seed,
    "epoch": d.Epoch,
    "keep_labels": d.KeepLabels,
}
BALANCE: Options = {"balance": d.Balance}
WIDTHS: Options = {
    name: BATCHING[name]
    for name in ("tokens_per_batch", "max_length", "overflow", "pad_to_multiple_of")
}
STRATEGIES: Options = {"strategy": d.Strategies}
TABLE: Options = {"preset": d.Presets, "every": d.Every, "seeds": d.Seeds, "sample": d.Sample}
SAMPLERS: Options = {"samplers": d.Samplers, "epochs": d.Epochs}
EXPORT: Options = {"export": d.Export}
MODEL: Options = {"model": d.Model}
BUCKETS: Options = {"buckets": d.Buckets, "least": d.Least, "cost": d.Cost}
STRATEGY: Options = {"strategy": d.Strategy}
LIMITS: Options = {
    "max_padding": d.limit("Padding tokens of all tokens computed.", "5%"),
    "min_fill": d.limit("How full the batches are.", "90%"),
    "max_batches": d.limit("Batches an epoch.", "N"),
    "max_truncated": d.limit("Tokens that max_length cuts, of the corpus.", "1%"),
    "max_dropped": d.limit("Tokens that no batch holds, of the corpus.", "0.1%"),
    "max_duplicated": d.limit("Tokens that are computed again, of all real ones.", "0.1%"),
    "min_coverage": d.limit("Samples of the corpus that an epoch computes.", "99%"),
    "max_rank_idle": d.limit("Time in which ranks wait for the slowest.", "5%"),
    "equal_steps": d.EqualSteps,
    "max_over_budget": d.limit("Batches above tokens_per_batch.", "N"),
    "max_class_ratio": d.limit("Largest class / smallest.", "X"),
    "max_p99": d.limit("Length that 99% of the samples do not exceed.", "N"),
    "baseline": d.Baseline,
    "max_increase": d.limit("Padding above the baseline's; 0 unless set.", "0.5pp"),
}
CONFIGURATION: Options = {"config": d.ConfigFile, "no_config": d.NoConfig}
CHECKS: Options = {"check": d.CheckNames}
BASELINE: Options = {"baseline": d.BaselineFile}
GATE: Options = {"format": d.Formats, "warn_only": d.WarnOnly, "sample": d.Sample}
FOLDER: Options = {"output": d.Output}
FILES: Options = {"output": d.Output, "as_json": d.AsJson, "plots": d.Plots}

_DEFAULTS: Mapping[str, Any] = {
    "output": DEFAULT_FOLDER,
    "as_json": False,
    "every": False,
    "plots": True,
    "no_cache": False,
    "allow_partial": False,
    "no_config": False,
    "warn_only": False,
}
