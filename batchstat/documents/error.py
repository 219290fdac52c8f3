"""What commands print with `--json` where they have no answer."""

from typing import Annotated

from batchstat.documents.base import Document
from batchstat.parameters import described
from batchstat.records import among, told

_IDS = (
    *("option", "input", "input/missing", "input/unreadable", "input/column", "input/no-batch"),
    *("storage/full", "memory"),
)


@described("Why there is no answer.")
class Error(Document):
    id: Annotated[str, among(_IDS)] = told(
        "Its kind: option for what is wrong whatever the input; input for data, a file or the "
        "machine, where input/missing is not there, and input/unreadable may be read at another "
        "attempt; no space or no memory."
    )
    message: str = told("What is wrong, with the value, and where.", of="problem")
    remedy: str = told("What to do, or what the value must be; empty where the message says it.")
    exit_code: Annotated[int, among((2, 3))] = told("2 for option, else 3.")


@described(
    """What a command prints on standard output with --json, and check with --format json, instead
    of a report. Standard error has the same as a line.
    """
)
class ErrorFile(Document):
    error: Error
