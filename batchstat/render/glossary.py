"""What names mean, taken from where it is said: docstrings, declarations, JSON Schemas."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from batchstat.calibration.cost_model import CostModel
from batchstat.calibration.known_models import KNOWN_MODELS
from batchstat.calibration.setup import Setup
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.comparison import Model
from batchstat.documents.parts import parts
from batchstat.documents.schema import schema
from batchstat.errors import OptionError, did_you_mean
from batchstat.findings import catalogue
from batchstat.parameters import Option, options_of
from batchstat.planning.algorithms.bucket_edges import RULES
from batchstat.planning.rules import COSTS
from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.registry import FRAMEWORKS, OWN_STRATEGIES, STRATEGIES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WORDS: Mapping[str, str] = {
    "sample": "One text, or conversation, or pair.",
    "record": "Where a sample stood in its corpus, skipped ones counted: the number that every "
    "plan uses.",
    "length": "A sample's tokens, the tokenizer's special tokens counted; whole in a profile, "
    "after max_length in a plan. Of a sample that is made of several rows: that of its longest.",
    "pair": "A sample of two rows, a chosen and a rejected answer, which stay in one batch.",
    "view": "A row of a sample that comes several times before a backward: in several forwards, or "
    "in one batch. Its loss may compare the rows of a batch, so that samples stay in theirs.",
    "group": "The completions of one prompt, whose lengths are not known before.",
    "order": "The sequence of samples in an epoch: file, shuffled or blocks.",
    "window": "read_ahead consecutive samples of the order; nothing crosses from one to the next.",
    "row": "What is padded to the batch's width: one sample, or several when packed.",
    "batch": "Rows of one width: one forward pass on one rank.",
    "step": "One optimizer update: gradient_accumulation_steps batches on each rank.",
    "width": "Tokens to which the rows of a batch are padded.",
    "current": "The setup that the others are compared to: --current, else static, else the first "
    "row.",
    "losses": "What a setup loses and repeats: samples dropped, truncated and repeated, each with "
    "its share of the tokens; and whether the next epoch drops the same samples.",
    "varlen attention": "Attention that keeps the samples of a row apart, as FlashAttention's "
    "variable-length kernels and block masks do: packed rows need it.",
    "share": "How many of all samples.",
    "budget": "tokens_per_batch: the most total tokens in a batch, on one rank.",
    "strategy": f"How samples become batches. Batchstat's own: {', '.join(OWN_STRATEGIES)}. What "
    f"frameworks do: {', '.join(FRAMEWORKS)}.",
    "sampler": "What decides which samples an epoch has, and how often each: "
    f"{', '.join(SAMPLERS)}.",
    "compute": "Of a max_length: expected total tokens of random batches of 8, padded to their "
    "longest sample, over those without a max_length.",
    "suggested": "The smallest max_length that truncates at most 1 % of samples and, samples far "
    "longer than all others apart, 0.5 % of the tokens.",
    "largest class": "How often an epoch has a sample of the largest class, on average.",
    "smallest class": "How often an epoch has a sample of the smallest class, on average.",
    "lost tokens": "Of a max_length: tokens that it truncates.",
    "trained tokens": "Tokens that carry loss: those whose label is not -100.",
    "lost trained tokens": "Of a max_length: trained tokens that it truncates.",
    "untrained samples": "Of a max_length: samples that would have no trained token.",
    "truncated samples": "Of a max_length: samples that are longer.",
    "split": "A part of a corpus that is counted on its own: a file, or 64 MiB of a large one.",
    "partial": "Of a profile: splits of the corpus could not be counted, and were skipped because "
    "that was asked for; batchstat check refuses it.",
    "finding": "A fact about a corpus or configuration with a stable id, such as "
    "padding/over-budget, which a warning ends with.",
    "limit": "What batchstat check holds a number against.",
    "base": "An earlier check, of a revision or in a file, that a check is compared with.",
    "lost": "Tokens that are in the epoch but never computed: truncated and dropped together.",
}

COLUMNS: Mapping[str, str] = {
    "padding": "padding_ratio",
    "current padding": "padding_ratio",
    "best padding": "padding_ratio",
    "±": "interval",
    "over seeds": "seeds",
    "samples/batch": "samples_per_batch",
    "batch size": "samples_per_batch",
    "batch tokens": "mean_batch_tokens",
    "over budget": "over_budget_batches",
    "largest": "max_batch_tokens",
    "shapes": "distinct_shapes",
    "attention": "quadratic",
    "cost": "relative_cost",
    "correlation": "neighbour_correlation",
    "batch size ±": "samples_per_batch_cv",
    "step tokens ±": "tokens_per_step_cv",
    "classes/batch": "classes_per_batch",
    "single class": "single_class_ratio",
    "class ratio": "class_ratio",
    "compute": "relative_compute",
    "mean length": "mean_length",
    "after": "coverage_after",
    "in epochs": "coverage_after",
    "seen": "coverage",
    "most repeats": "max_repeats",
    "epoch size": "samples",
    "unseen": "unseen_samples",
    "repeats": "max_repeats",
    "repeated": "duplicated_samples",
    "dropped": "dropped_samples",
    "shared": "shared_samples",
    "accuracy ±": "accuracy_bound",
    "accuracy": "accuracy_bound",
    "attention idle": "rank_idle_quadratic",
    "steps/rank": "max_steps",
    "slowest": "worst",
    "mean": "mean_tokens",
    "because": "worst",
    "more": "not_shown",
    "speed-up": "speed_up",
    "least": "bounds",
    "all samples sorted": "sorted",
    "sorting": "recommended",
    "packing": "packed",
    "class": "label",
    "token weight": "token_weight",
    "per step": "per_step",
    "step ±": "per_step",
    "step min-max": "per_step",
    "per rank": "per_rank",
    "rank ±": "per_rank",
    "rank min-max": "per_rank",
}
"""Words of the screens, and the keys that they show."""


@dataclass(frozen=True)
class Entry:
    """What a name means."""

    name: str
    kind: str
    text: str
    facts: tuple[tuple[str, str], ...] = ()  # more of it, each under a name


def explain_all(words: Sequence[str]) -> list[Entry]:
    """Return all that several names mean, also of several words, as `packing efficiency`: the
    longest run of words that is a name is taken. Raises OptionError: nothing has one of the names.
    """
    meanings: list[Entry] = []
    start = 0
    while start < len(words):
        # The longest run of words from `start` on that is a name; a single word if none is one.
        ends = range(len(words), start, -1)
        end = next((end for end in ends if _entries_called(" ".join(words[start:end]))), start + 1)
        meanings += explain(" ".join(words[start:end]))
        start = end
    return meanings


def explain(name: str) -> Sequence[Entry]:
    """Return all that a name means. Raises OptionError with the nearest name if nothing has it."""
    if not (matches := _entries_called(name)):
        known = {entry.name for entry in entries()} | set(COLUMNS)
        suggestion = did_you_mean(name, sorted(known)) or "run batchstat explain for all names"
        raise OptionError(f"nothing is called {name!r}", suggestion)
    return matches


def _entries_called(name: str) -> Sequence[Entry]:
    # Headings have the number in them: `over 3 seeds`, `in 10 epochs`.
    name = re.sub(r"^(over|after|in) \d+\b", r"\1", name)
    # A heading of a screen may differ from the key that it shows.
    return _entries_by_name().get(_normalized(COLUMNS.get(name.lower(), name)), ())


@cache
def _entries_by_name() -> Mapping[str, list[Entry]]:
    by_name: dict[str, list[Entry]] = {}
    for entry in entries():
        by_name.setdefault(_normalized(entry.name), []).append(entry)
    return by_name


def entries() -> Iterator[Entry]:
    """Yield everything that has a name."""
    for name, strategy in STRATEGIES.items():
        yield Entry(name, "strategy", _prose(strategy), tuple(_parameters(strategy)))
    for name, sampler in SAMPLERS.items():
        defaults = tuple((field.name, _default(field)) for field in fields(sampler))
        yield Entry(name, "sampler", _prose(sampler), defaults)
    for name, rule in RULES.items():
        yield Entry(name, "rule for bucket edges", _prose(rule))
    yield from _parameters_and_settings()
    text = f"{_prose(CostModel)}\n\nBuilt in: {', '.join(KNOWN_MODELS)}."
    model_keys = {
        field.name: field.metadata["told"].replace("`", "") for field in fields(CostModel)
    }
    yield Entry("model", "estimate", text, tuple(model_keys.items()))
    keys_in_results = parts(Model).keys  # which `_keys` yields
    for name, text in model_keys.items():
        if name not in keys_in_results:
            yield Entry(name, "key of a model", text)
    for name, (source, shape) in KNOWN_MODELS.items():
        yield Entry(name, "model", f"The shape of {source}: {shape}.")
    for name, text in WORDS.items():
        yield Entry(name, "word", text)
    for name, explanation in catalogue().items():
        facts = (
            ("why it matters", explanation.why),
            ("how to fix it", explanation.fix),
            ("how to silence it", f'--ignore {name}, or ignore = ["{name}"] in batchstat.toml'),
        )
        yield Entry(name, "finding", explanation.what, facts)
    yield from _keys()


def _parameters_and_settings() -> Iterator[Entry]:
    """Yield parameters of strategies, settings and options, then their values."""
    # By the name of a parameter: its values with what each means. `cost` is of find_buckets.
    values_of = {"cost": COSTS}
    for name, (owners, option) in parameters().items():
        facts = tuple(option.values.items())
        yield Entry(name, f"parameter of {', '.join(owners)}", option.help, facts)
        values_of[name] = option.values
    records: dict[str, type[DataclassInstance]] = {
        "setting": Settings,
        "option of reading": CorpusOptions,
        "option of calibrate": Setup,
    }
    for kind, record in records.items():
        for name, option in options_of(record).items():
            facts = tuple(option.values.items())
            yield Entry(name, kind, option.help.replace("`", ""), facts)
            values_of[name] = option.values
    for parameter, values in values_of.items():
        for name, text in values.items():
            yield Entry(name, f"value of {parameter}", text)


def parameters() -> dict[str, tuple[list[str], Option]]:
    """Return by name the strategies and samplers with a parameter, and its first declaration."""
    kinds: dict[str, type[DataclassInstance]] = {**STRATEGIES, **SAMPLERS}
    names_of = {owner: {field.name for field in fields(kind)} for owner, kind in kinds.items()}
    # `options_of` leaves out shared settings. Reversed, the first declaration comes last.
    declarations = options_of(*reversed(kinds.values()))
    return {
        name: ([owner for owner, names in names_of.items() if name in names], declared)
        for name, declared in declarations.items()
    }


def _keys() -> Iterator[Entry]:
    """Yield the files of results, and their keys; once where several files mean the same."""
    keys_seen = set()
    for file in ("profile", "compare", "buckets", "balance", "check"):
        yield Entry(f"{file}.json", "file", schema(file)["description"])
        for path, text in _described_keys(schema(file)):
            # Named by the end of its path, such as padding_ratio for strategies[].padding_ratio.
            entry = Entry(path.rpartition(".")[2].removesuffix("[]"), f"{file}.json {path}", text)
            if (entry.name, text) not in keys_seen:
                keys_seen.add((entry.name, text))
                yield entry


def _normalized(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


def _prose(documented: Any) -> str:
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    texts = (" ".join(part.split()).replace("`", "") for part in paragraphs)
    return "\n\n".join(t for t in texts if not t.startswith(("Attributes:", "Args:", "Raises:")))


def _parameters(strategy: type[Strategy]) -> Iterator[tuple[str, str]]:
    """Yield what a strategy prescribes and its parameters, each with its default."""
    shared = {field.name for field in fields(Settings)}
    for key in ("order", "distribute", "remainder"):
        # That of `regrouped` is its setup's: only a strategy that is made has one.
        if isinstance(prescribed := getattr(strategy, key), str):
            yield key, prescribed
    for field in strategy.settable().values():
        if field.name == "batch_size" and strategy.usual_batch_size is not None:
            yield field.name, f"as --batch-size, else {strategy.usual_batch_size}"
        # A parameter of the same name as a setting takes the value of that.
        elif field.name in shared and field.name not in strategy.own_parameters:
            yield field.name, "as --" + field.name.replace("_", "-")
        else:
            yield field.name, _default(field)


def _default(field: "Field[Any]") -> str:
    if field.default in (None, ()) or field.default is MISSING:
        return "unset"
    value = field.default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described_keys(part: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the described keys of a JSON Schema by path, such as `strategies[].padding_ratio`."""
    if path and "description" in part:
        yield path, part["description"]
    for name, property_schema in part.get("properties", {}).items():
        yield from _described_keys(property_schema, f"{path}.{name}" if path else name)
    if "items" in part:
        yield from _described_keys(part["items"], f"{path}[]")
    for alternative in part.get("anyOf", ()):
        yield from _described_keys(alternative, path)
