"""A sampler's file of weights, read where the command line or the configuration names it."""

import json

from batchstat.errors import InputError, OptionError
from batchstat.planning.samplers.spec import distinct_labels, weights_file
from batchstat.planning.samplers.weights import Weights
from batchstat.storage.addresses import check_regular, local_path


def inlined(spec: str) -> str:
    """Return the text of a sampler, with a file of weights replaced by its contents.

    Raises:
        OptionError: an unknown sampler.
        InputError: a file of weights that cannot be read, or that has no valid weights.
    """
    name = weights_file(spec)
    if name is None:
        return spec
    try:
        path = local_path(name)
        check_regular(path)
        text = path.read_text(encoding="utf-8")
        table = json.loads(text, object_pairs_hook=distinct_labels)
        if isinstance(table, dict):
            Weights(weights=table)
    except OptionError as error:
        raise InputError(f"{name}: {error}") from None
    except OSError as error:
        raise InputError(f"weights: {name} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"weights: {name} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f'weights: {name} has no object: write {{"positive": 1, "negative": 3}}')
    return spec.replace(name, json.dumps(table, ensure_ascii=False), 1)
