"""Convert panics of the tokenizers library, which are not an `Exception`, to errors."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic in Rust, a BaseException that `except Exception` misses, into a RuntimeError."""
    try:
        yield
    except BaseException as error:
        # A panic is recognized by its name: pyo3 has no module to import the class from.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizers library panics: {error}") from None
