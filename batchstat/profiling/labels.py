"""Labels of blocks of samples as Arrow has them."""

import pyarrow as pa
import pyarrow.compute as pc

from batchstat.lengths.arrays import offsets_from_sizes
from batchstat.lengths.labels import Labels


def as_labels(values: pa.Array) -> Labels:
    """Return the labels of samples in an Arrow array."""
    sizes = None
    # Lists: a sample may have several labels.
    if pa.types.is_large_list(values.type):
        # A sample without a label still takes one entry, for the code that means "no label".
        unlabelled = pa.array([[None]], pa.large_list(pa.large_string()))[0]
        values = pc.coalesce(values, unlabelled)
        sizes = pc.list_value_length(values).to_numpy(zero_copy_only=False)
        values = pc.list_flatten(values)
    # A dictionary numbers the texts in the order in which they occur first; −1 is "no label".
    encoded = values.cast(pa.large_string()).dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    offsets = None if sizes is None else offsets_from_sizes(sizes)
    return Labels(codes, tuple(encoded.dictionary.to_pylist()), offsets)
