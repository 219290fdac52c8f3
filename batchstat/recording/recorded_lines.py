"""The lines of a recording, as `recorder/` writes them, as models of pydantic.

Whatever is read of a recording is checked against them first, so that lines that somebody edited
are refused and not counted. A key has the same short name in the file.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, TypeAdapter
from pydantic import model_validator as validates

from batchstat.recording.recorder.lines import nested

Lengths = list[NonNegativeInt | list[NonNegativeInt]]
"""For each row a number of tokens, or a list of numbers where the row holds several samples."""


class _Line(BaseModel):
    # Keys may be added without another format, so that an older batchstat reads the rest.
    model_config = ConfigDict(strict=True, extra="allow")


class _Part(_Line):
    """What a forward computes, as `recorder.lines.part_of` writes it.

    `w` is the widths, `n` the real tokens of each sample, `y` those that carry loss.
    """

    w: Annotated[list[PositiveInt], Field(min_length=1)]
    by: str
    loss: str
    n: Lengths | None = None
    y: Lengths = []
    rows: PositiveInt | None = None
    ends: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = []
    decoder: list[NonNegativeInt] | None = None
    labelled: list[NonNegativeInt] = []
    carry: NonNegativeInt = 0
    straight: bool = False

    @validates(mode="after")
    def _agrees(self) -> "_Part":
        """Check that all lists have the same rows, and no row more tokens than its width."""
        rows = self.rows if self.n is None else len(self.n)
        lists_of_rows = [each for each in (self.y, self.decoder, self.ends, self.labelled) if each]
        if not rows or any(len(numbers) != rows for numbers in lists_of_rows):
            raise ValueError("numbers of other rows")
        lengths, trained = nested(self.n or []), nested(self.y)
        if any(sum(row) > sum(self.w) for row in lengths):
            raise ValueError("more tokens than its width")
        # Lengths and trained tokens of the same samples, where the line has both: `y` is also [] by
        # default, where the line has none.
        is_both = self.n is not None and "y" in self.model_fields_set
        if is_both and list(map(len, trained)) != list(map(len, lengths)):
            raise ValueError("trained tokens of other samples")
        return self


_Parts = Annotated[list[_Part], Field(min_length=1)]
_Numbers = list[list[NonNegativeInt] | None]
_Calls = Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)]


class _Read(_Line):
    """A batch, computed or only read: samples of each part by their numbers or digests."""

    parts: _Parts
    epoch: NonNegativeInt | None = None
    numbers: _Numbers | None = None
    digests: list[str] = []

    @validates(mode="after")
    def _agrees(self) -> "_Read":
        """Check that numbers and digests, if the line has them, have one list for each part."""
        for samples_of_parts in (self.numbers, self.digests or None):
            if samples_of_parts is not None and len(samples_of_parts) != len(self.parts):
                raise ValueError("samples of other forwards")
        return self


class _Batch(_Read):
    k: Literal["batch"]
    s: NonNegativeInt
    t: Annotated[list[float], Field(min_length=2, max_length=2)] = [0, 0]
    device: str = ""
    unused: _Calls = [0, 0]


class _Rest(_Read):
    k: Literal["rest"]


class _Step(_Line):
    k: Literal["step"]
    s: NonNegativeInt
    t: Annotated[list[float], Field(min_length=1)]


class _Begin(_Line):
    k: Literal["begin"]
    format: int
    id: str
    rank: NonNegativeInt
    world_size: PositiveInt
    program: str
    python: str
    torch: str
    at: float


class _Trainer(_Line):
    k: Literal["trainer"]
    kind: str
    version: str
    framework: str
    arguments: dict[str, Any]
    arguments_class: str
    world_size: PositiveInt
    own_loss: list[str]
    samples_by_arguments: bool
    multiple: PositiveInt
    has_decoder: bool
    takes_count: bool


class _Handed(_Line):
    k: Literal["handed"]
    e: NonNegativeInt
    n: list[NonNegativeInt]
    d: str


class _End(_Line):
    k: Literal["end"]
    why: str
    unused: _Calls
    partly: str = ""


_LINES: TypeAdapter[Any] = TypeAdapter(
    list[
        Annotated[
            _Begin | _Trainer | _Batch | _Rest | _Step | _Handed | _End, Field(discriminator="k")
        ]
    ]
)


def check_lines(lines: list[dict[str, Any]]) -> None:
    """Raise ValueError unless these are lines of a recording, the first that of its beginning."""
    _LINES.validate_python(lines)
    if lines[0]["k"] != "begin" or lines[0]["rank"] >= lines[0]["world_size"]:
        raise ValueError("not the beginning of a recording")
