"""Panics of the tokenizers library, which are no `Exception`, as errors."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raises RuntimeError where the tokenizers library panics."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the tokenizers library panics: {error}") from None
