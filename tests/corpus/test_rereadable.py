"""Standard input, which is copied while it is read so that it can be read again."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchstat.corpus.files import opening
from batchstat.corpus.files.opening import Rereadable
from batchstat.errors import InputError

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")


def rest_of(stream: Rereadable, size: int) -> bytes:
    return b"".join(iter(lambda: stream.next_bytes(size), b""))


@given(data=st.binary(max_size=200), sizes=st.lists(st.integers(1, 60), max_size=8))
def test_it_is_read_again_wherever_the_first_reading_ended(data, sizes):
    stream = Rereadable(io.BytesIO(data))
    for size in sizes:
        assert data.startswith(stream.next_bytes(size) + stream.next_bytes(size))
        stream.rewind()
    assert rest_of(stream, 7) == data
    stream.rewind()
    assert rest_of(stream, 1000) == data
    stream.close()


class FullDisk(io.BytesIO):
    """A file that holds back what is written, and has no space when it must write it."""

    def read(self, *_):
        raise OSError(28, "No space left on device")

    def seek(self, *_):
        raise OSError(28, "No space left on device")


def test_a_full_disk_ends_the_copy_and_not_the_reading(monkeypatch):
    monkeypatch.setattr(opening.tempfile, "TemporaryFile", FullDisk)
    stream = Rereadable(io.BytesIO(b"text " * 100))
    assert rest_of(stream, 64) == b"text " * 100
    with pytest.raises(InputError, match="no space for a copy"):
        stream.rewind()
