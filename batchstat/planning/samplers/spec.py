"""Samplers as users write them: `name`, `name:key=value,key=value`, or `name=value,…`."""

import json
from dataclasses import MISSING, fields
from typing import Any

from batchstat.errors import OptionError, unknown
from batchstat.parameters import read_parameters
from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.weights import Weights
from batchstat.words import short


def parse_sampler(spec: str) -> Sampler:
    """Return the sampler that `spec` names; `count=100` and `weights=positive:1,negative:3` are
    short for `count:count=100` and so on. Weights are `label:weight,label:weight`, or JSON for
    labels with commas or colons. Raises OptionError: an unknown name or parameter, a wrong value.
    """
    name, parameters_text = name_and_parameters(spec)
    fields_by_name = {field.name: field for field in fields(SAMPLERS[name])}
    parameters: dict[str, Any] = {}
    # Weights have commas and colons of their own, and are read first.
    if SAMPLERS[name] is Weights:
        parameters["weights"], parameters_text = _split_weights(parameters_text)
        fields_by_name.pop("weights")
    parameters |= read_parameters("sampler", name, parameters_text, fields_by_name)
    required = [key for key, field in fields_by_name.items() if field.default is MISSING]
    missing = [key for key in required if key not in parameters]
    if missing:
        example = ",".join(f"{key}=N" for key in missing)
        # `count=N` is enough where the parameter has the name of the sampler.
        correction = example if missing == [name] else f"{name}:{example}"
        raise OptionError(f"sampler {spec!r} needs {missing[0]}", f"write {correction!r}")
    return SAMPLERS[name](**parameters)


def weights_file(spec: str) -> str | None:
    """Return the file of `weights=balance.json`; None if a text has the weights themselves."""
    _, _, after = spec.partition("weights=")
    text = _cut_at_parameter(after)[0]
    return text if text.endswith(".json") and not text.startswith("{") else None


def name_and_parameters(spec: str) -> tuple[str, str]:
    """Return `dynamic` and `decay=0.5` of `dynamic:decay=0.5`. Raises OptionError: unknown name."""
    colon, equals = spec.find(":"), spec.find("=")
    # `count=100` is short for `count:count=100`: its parameter has the name of the sampler.
    if equals >= 0 and (colon < 0 or equals < colon):
        name, parameters = spec[:equals], spec
    else:
        name, _, parameters = spec.partition(":")
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    return name, parameters


def _split_weights(parameters: str) -> tuple[dict[str, float], str]:
    """Return the weights, wherever they are among the parameters, and the text of the other
    parameters. `length=8,weights=a:1,b:3` gives {"a": 1, "b": 3} and `length=8`.
    """
    before, marker, after = parameters.partition("weights=")
    if not marker:
        raise OptionError("sampler weights needs weights, as in 'weights=positive:1,negative:3'")
    if after.startswith("{"):
        try:
            weights, end = json.JSONDecoder(object_pairs_hook=distinct_labels).raw_decode(after)
        # From `distinct_labels`, which names the label; it is a ValueError, too.
        except OptionError:
            raise
        except (ValueError, RecursionError) as error:
            raise OptionError(f"weights={short(after)} is not valid JSON: {error}") from None
        others = after[end:]
        if others and not others.startswith(","):
            raise OptionError(f"weights={after!r}", "write a comma after the object")
    else:
        weights_text, others = _cut_at_parameter(after)
        weights = _weights_of_pairs(weights_text)
    return weights, (before + others).strip(",")


def _cut_at_parameter(text: str) -> tuple[str, str]:
    keys = [field.name for field in fields(Weights)]
    begins = [begin for key in keys if (begin := text.find(f",{key}=")) >= 0]
    end = min(begins, default=len(text))
    return text[:end], text[end + 1 :]


def _weights_of_pairs(text: str) -> dict[str, float]:
    """Return the weights of `label:weight,label:weight`; a label may have colons, a weight not."""
    pairs: list[tuple[str, float]] = []
    for pair in text.split(","):
        label, colon, weight = pair.rpartition(":")
        if not colon:
            raise OptionError(
                f"weights: {pair!r} has no weight",
                "write label:weight, or a JSON object for labels "
                "with commas (the command line also reads one from a .json file)",
            )
        try:
            # Whole weights stay integers: a share of them is exact.
            pairs.append((label, int(weight) if weight.strip().isdecimal() else float(weight)))
        except ValueError:
            raise OptionError(f"weights: {label}:{weight}", "must be a number") from None
    return distinct_labels(pairs)


def distinct_labels(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs of label and weight as a dictionary; OptionError for a repeated label."""
    table: dict[str, Any] = {}
    for label, weight in pairs:
        if label in table:
            raise OptionError(f"weights: {label!r} is given twice", "give it once")
        table[label] = weight
    return table
