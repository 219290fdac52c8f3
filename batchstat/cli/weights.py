"""A sampler's file of weights, read where the command line or the configuration names it."""

import json

from batchstat.errors import InputError, OptionError
from batchstat.planning.samplers.spec import distinct_labels, weights_file
from batchstat.planning.samplers.weights import Weights
from batchstat.storage.addresses import check_regular, local_path


def inlined(spec: str) -> str:
    """Return a sampler as it is written, with the contents of its file of weights in place of the
    file's name: `weights=w.json` becomes `weights={"A": 1, "B": 3}`. Others stay as they are.

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
        if isinstance(table, dict):  # made only to raise OptionError if the weights are not valid
            Weights(weights=table)
    except OptionError as error:  # what is wrong is in the file, not on the command line
        raise InputError(f"{name}: {error}") from None
    except OSError as error:
        raise InputError(f"weights: {name} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"weights: {name} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f'weights: {name} has no object: write {{"positive": 1, "negative": 3}}')
    return spec.replace(name, json.dumps(table, ensure_ascii=False), 1)
