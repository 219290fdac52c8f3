"""`PacksDocuments`: what strategies share that put whole samples into rows."""

from dataclasses import dataclass
from typing import ClassVar

from batchstat.errors import OptionError
from batchstat.parameters import parameter
from batchstat.planning.strategies.base import Strategy


@dataclass(frozen=True, kw_only=True)
class PacksDocuments(Strategy):
    """A strategy with several samples per row, each padded to a multiple of its own.

    Megatron and Transformer Engine pad every sample of a packed row: context parallelism over cp
    ranks needs multiples of 2 x cp, FP8 of 16. This padding counts as any other, and a row holds
    `max_length` rounded up to that multiple.

    Raises:
        OptionError: `document_multiple` where samples are cut.
    """

    packs_rows: ClassVar[bool] = True

    document_multiple: int = parameter("Pad each sample of a row to a multiple of N tokens.", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.document_multiple > 1 and self.cuts_samples:
            raise OptionError(
                f"document_multiple={self.document_multiple} needs whole samples, and "
                "wrapped rows cut them",
                "choose another way of packing",
            )
