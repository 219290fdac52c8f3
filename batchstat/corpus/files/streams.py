"""Streams below a reader: hashed, fetched, in another encoding, or copied to be read again."""

import codecs
import hashlib
import tempfile
from contextlib import suppress
from typing import IO, Any, BinaryIO

from batchstat.corpus.files.compression import InputStream
from batchstat.errors import InputError


class Hashing(InputStream):
    """A stream that is hashed and counted as it is read."""

    def __init__(self, raw: "BinaryIO | Rereadable") -> None:
        self._raw, self.sha256, self.bytes_read = raw, hashlib.sha256(), 0

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._raw.read(size) or b""
        self.sha256.update(data)
        self.bytes_read += len(data)
        return data


class Fetched(InputStream):
    """A file at an address; an end before the listed size is an error: samples would be lost."""

    def __init__(self, raw: Any, size: int) -> None:
        self._raw, self._size = raw, size

    def seekable(self) -> bool:  # noqa: D102
        return bool(self._raw.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:  # noqa: D102
        return int(self._raw.seek(offset, whence))

    def tell(self) -> int:  # noqa: D102
        return int(self._raw.tell())

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes, at most `size`. Raise OSError if the file ends too early."""
        data: bytes = self._raw.read(size)
        if not data and size and self.tell() < self._size:
            raise OSError(f"it ends before the {self._size:,} bytes that its storage says")
        return data

    def close(self) -> None:  # noqa: D102
        self._raw.close()
        super().close()


class Recoded(InputStream):
    """A text file in another encoding, as UTF-8."""

    def __init__(self, raw: BinaryIO, encoding: str, shown: str) -> None:
        self._raw, self._encoding, self._shown = raw, encoding, shown
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._read, self._left = 0, b""

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes of UTF-8. Raises InputError for bytes of another encoding."""
        while not self._left:
            data = self._raw.read(1 << 18)
            try:
                text = self._decoder.decode(data, final=not data)
                # Some codecs, such as utf-16 and utf-7, have half a surrogate pair.
                self._left = text.encode()
            except UnicodeDecodeError as error:
                at = self._read + len(data) - len(error.object) + error.start
                bad = f"byte {at:,} (0x{error.object[error.start]:02x})"
                raise InputError(f"{self._shown}: {bad} is not {self._encoding}") from None
            except UnicodeEncodeError:
                raise InputError(f"{self._shown} is not {self._encoding}") from None
            self._read += len(data)
            if not data:
                break
        head, self._left = self._left[:size], self._left[size:]
        return head


class Rereadable(InputStream):
    """A stream copied to a temporary file, if there is space, so that it can be read again."""

    def __init__(self, raw: BinaryIO) -> None:
        """`raw`: a stream of which nothing has been read."""
        self._raw, self._was_read, self._reads_copy = raw, False, False
        # None if there is no space for it, now or while it is written.
        self._copy: IO[bytes] | None = None
        with suppress(OSError):
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115

    def close(self) -> None:
        """Remove the copy; the stream itself stays open."""
        if self._copy is not None:
            self._copy.close()
        super().close()

    def rewind(self) -> None:
        """Go back to the start, which is read from the copy. Raises InputError if there is none."""
        if not self._was_read:
            return
        if self._copy is not None:
            # Before it seeks, the file writes what it has buffered, for which space may lack.
            with suppress(OSError):
                self._copy.seek(0)
                self._reads_copy = True
                return
        raise InputError(
            "standard input must be read again, but the folder for temporary files has no space "
            "for a copy of it",
            "pass a file",
        )

    def next_bytes(self, size: int) -> bytes:
        """Return the next bytes: of the copy after `rewind`, else of the stream, to be copied."""
        self._was_read = True
        if self._reads_copy and self._copy is not None:
            if data := self._copy.read(size):
                return data
            self._reads_copy = False  # the copy ends here, and the stream may go on
        data = self._raw.read(size)
        if self._copy is not None:
            try:
                # The copy is at its end here, so this appends.
                self._copy.write(data)
            except OSError:  # no space: the reading itself goes on, and rewind raises
                self._copy = None
        return data
