"""Convert panics of the tokenizers library, which are not an `Exception`, to errors."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of the tokenizers library, in Rust, into a RuntimeError.

    A panic is a BaseException, which `except Exception` would not catch.
    """
    try:
        yield
    except BaseException as error:
        # A panic is recognized by its name: pyo3 has no module to import the class from.
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizers library panics: {error}") from None
