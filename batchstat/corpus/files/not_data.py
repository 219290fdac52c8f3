"""Files that hold no corpus, though they can be opened: placeholders, and formats of other things.

Counted as text, they would give a report like any other.
"""

import re

_LFS = b"version https://git-lfs.github.com/spec/"
_ANNEX = re.compile(rb"/annex/objects/|\.?\.?/?\.git/annex/objects/").match

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b\x1c\x1d\x1e\x1f"))
_MOST_CONTROLS = 20  # one control character in so many bytes is the most that a text has
_FEW = 20  # fewer control characters than this say nothing of a short text

_UNPACK = "unpack it, and pass the files in it"
_TOKENS = "pass the lengths of its documents, as .npy, or its token ids, as .parquet"
_MAGICS = {
    b"PK\x03\x04": (
        f"a zip archive, as of Office, NumPy or torch: {_UNPACK}, or save it as .csv or .npy"
    ),
    b"PK\x05\x06": "an empty zip archive",
    b"Rar!\x1a\x07": f"a RAR archive: {_UNPACK}",
    b"7z\xbc\xaf\x27\x1c": f"a 7z archive: {_UNPACK}",
    b"MMIDIDX\x00\x00": f"an index of Megatron's token ids: {_TOKENS}",
    b"%PDF-": "a PDF: pass its text",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file: save it as .parquet",
    b"SQLite format 3\x00": "an SQLite database: save the table as .csv or .parquet",
    b"\x80\x02}": "a pickle: save it as .parquet",
    **{
        bytes([0x80, protocol, 0x95]): "a pickle: save it as .parquet"  # a frame follows
        for protocol in (4, 5)
    },
}
"""What files are by their first bytes, and what to do."""


def fault_of_head(head: bytes) -> str:
    """Return what a file is that by its first bytes (at least 262, or all) cannot be read as data,
    and what to do about it; empty if it may be.
    """
    if head.startswith(_LFS):
        return (
            "a Git LFS pointer, not the data: run git lfs pull, or check out with lfs: true on "
            "GitHub"
        )
    if _ANNEX(head):
        return "a git-annex pointer, not the data: run git annex get"
    # The magic of POSIX's tar, with which GNU's begins. Text may have the word there, but no NUL.
    if head[257:262] == b"ustar" and b"\0" in head[:257]:
        return f"a tar archive: {_UNPACK}"
    return next((words for magic, words in _MAGICS.items() if head.startswith(magic)), "")


def fault_of_text(head: bytes) -> str:
    """Return what is wrong with the start of a file that should be text; empty if nothing is.

    Token ids of Megatron or nanoGPT, as 16 or 32 bits each, are control characters by a tenth or
    more; a text, in whatever encoding, has hardly any.
    """
    controls = len(head) - len(head.translate(None, _CONTROLS))
    is_text = controls < _FEW or _MOST_CONTROLS * controls <= len(head)
    return "" if is_text else f"binary, not text: if it holds token ids, {_TOKENS}"
