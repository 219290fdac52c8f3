"""A sampler's file of weights, read where the command line or the configuration names it."""

import json

from batchstat.errors import InputError, OptionError
from batchstat.planning.samplers.spec import distinct_labels, weights_file
from batchstat.planning.samplers.weights import Weights
from batchstat.storage.addresses import check_regular, local_path, unreadable


def with_inlined_weights(spec: str) -> str:
    """Return a sampler with the contents of its file of weights, if it names one: `weights=w.json`
    becomes `weights={"A": 1, "B": 3}`. Raises OptionError, or InputError for a bad file.
    """
    file = weights_file(spec)
    if file is None:
        return spec
    try:
        path = local_path(file)
        check_regular(path)
        text = path.read_text(encoding="utf-8")
        weights = json.loads(text, object_pairs_hook=distinct_labels)
        if not isinstance(weights, dict):
            raise InputError(
                f"weights: {file} has no object", 'write {"positive": 1, "negative": 3}'
            )
        Weights(weights=weights)  # made only to raise OptionError if they are not valid
    except OptionError as error:  # what is wrong is in the file, not on the command line
        raise InputError(f"{file}: {error.problem}", error.remedy) from None
    except OSError as error:
        raise unreadable(file, error).at("weights") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"weights: {file} is not valid JSON: {error}") from None
    return spec.replace(file, json.dumps(weights, ensure_ascii=False), 1)
