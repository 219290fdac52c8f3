"""Convert panics of the tokenizers library, which are not an `Exception`, to errors."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise RuntimeError if the tokenizers library panics."""
    try:
        yield
    except BaseException as error:
        # By its name: pyo3 has no module from which the class could be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizers library panics: {error}") from None
