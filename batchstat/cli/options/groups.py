"""Groups of options that commands share.

Options are named after the fields they set, and are None unless given, so that every default is
stated once, at the field.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import typer
from typer.models import OptionInfo

from batchstat.cli.options import batching, engine, output, reading
from batchstat.cli.options.base import limit
from batchstat.errors import OptionError

DEFAULT_FOLDER = Path("batchstat-results")

Options = Mapping[str, Any]
"""Annotated types of options, by the name of the command's parameter."""

Command = Callable[..., None]


def takes(*groups: Options) -> Callable[[Command], Command]:
    """Add options to a command, each None unless its type says otherwise or it is required."""

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

        @wraps(command)
        def checked(*args: Any, **options: Any) -> None:
            _refuse_empty(options, checked.__signature__)  # type: ignore[attr-defined]
            command(*args, **options)

        checked.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return checked

    return given


def _refuse_empty(options: Options, signature: inspect.Signature) -> None:
    """Raise OptionError if an option is empty, as from an unset variable in a script."""
    for name, value in options.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, str) and not each.strip():
                declared = signature.parameters[name].annotation.__metadata__[0]
                flags = declared.param_decls or (f"--{name.replace('_', '-')}",)
                is_option = isinstance(declared, OptionInfo)
                written = max(flags, key=len) if is_option else declared.metavar
                raise OptionError(f"{written} is empty: give it a value, or remove it")


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether the user gave an option of `takes`."""
    value = context.params.get(name)
    return value not in (None, [], ()) and value is not _DEFAULTS.get(name)


CORPUS: Options = {"corpus": reading.Corpus}
OPTIONAL_CORPUS: Options = {"corpus": reading.OptionalCorpus}
READING: Options = {
    "tokenizer": reading.Tokenizer,
    "input_format": reading.InputFormat,
    "text_column": reading.TextColumn,
    "messages_column": reading.MessagesColumn,
    "chat_template": reading.ChatTemplate,
    "tokens_column": reading.TokensColumn,
    "length_column": reading.LengthColumn,
    "label_column": reading.LabelColumn,
    "header": reading.Header,
    "quote": reading.Quote,
    "strip": reading.Strip,
    "min_chars": reading.MinChars,
    "on_error": reading.OnError,
    "no_cache": reading.NoCache,
    "workers": engine.Workers,
    "executor": engine.Engine,
    "scheduler": engine.Scheduler,
    "count_cache": engine.Parts,
}
PARTIAL: Options = {"allow_partial": engine.AllowPartial}
SHARD: Options = {"shard": engine.Shard}
TEMPLATE: Options = {"chat_template": reading.ChatTemplate}
BATCHING: Options = {
    "tokens_per_batch": batching.TokensPerBatch,
    "max_length": batching.MaxLength,
    "overflow": batching.Overflow,
    "batch_size": batching.BatchSize,
    "read_ahead": batching.ReadAhead,
    "max_samples": batching.MaxSamples,
    "pad_to_multiple_of": batching.PadToMultipleOf,
    "drop_last": batching.DropLast,
    "world_size": batching.WorldSize,
    "distribute": batching.Deal,
    "remainder": batching.Tail,
    "gradient_accumulation_steps": batching.Accumulate,
    "order": batching.Order,
    "seed": batching.Seed,
    "epoch": batching.Epoch,
    "keep_labels": batching.KeepLabels,
}
SAMPLER: Options = {"sampler": batching.Sampler}
STRATEGIES: Options = {"strategy": batching.Strategies}
TABLE: Options = {
    "preset": batching.Presets,
    "every": batching.Every,
    "seeds": batching.Seeds,
    "subsample": batching.Sample,
}
SAMPLERS: Options = {"samplers": batching.Samplers, "epochs": batching.Epochs}
EXPORT: Options = {"export": output.Export}
MODEL: Options = {"model": batching.Model}
BUCKETS: Options = {
    "buckets": batching.Buckets,
    "min_bucket_samples": batching.Least,
    "cost": batching.Cost,
}
STRATEGY: Options = {"strategy": batching.Strategy}
LIMITS: Options = {
    "max_padding": limit("Share of padding in all tokens computed.", "5%"),
    "min_fill": limit("How full the batches are, as a share of their budget.", "90%"),
    "max_batches": limit("Batches per epoch.", "N"),
    "max_truncated": limit("Share of the corpus's tokens lost to max_length.", "1%"),
    "max_dropped": limit("Share of the corpus's tokens that are in no batch.", "0.1%"),
    "max_duplicated": limit("Share of real tokens that are duplicates.", "0.1%"),
    "min_coverage": limit("Share of the corpus's samples that an epoch computes.", "99%"),
    "max_rank_idle": limit("Share of time that ranks wait for the slowest.", "5%"),
    "equal_steps": output.EqualSteps,
    "max_over_budget": limit("Number of batches above tokens_per_batch.", "N"),
    "max_class_ratio": limit("Ratio of the largest class to the smallest.", "X"),
    "max_p99": limit("99th percentile of sample lengths.", "N"),
    "baseline": output.Baseline,
    "max_increase": limit("Increase of padding over the baseline; 0 unless set.", "0.5pp"),
}
CONFIGURATION: Options = {"config": output.ConfigFile, "no_config": output.NoConfig}
CHECKS: Options = {"check": output.CheckNames}
BASELINE: Options = {"baseline": output.BaselineFile}
GATE: Options = {
    "format": output.Formats,
    "warn_only": output.WarnOnly,
    "subsample": batching.Sample,
}
FOLDER: Options = {"output": output.Output}
FILES: Options = {"output": output.Output, "as_json": output.AsJson, "plots": output.Plots}

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
