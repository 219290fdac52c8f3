"""The batches that a device is measured on."""

from dataclasses import dataclass

_NARROWEST = 16  # tokens of the narrowest row, where the widest is at least four times as wide
_WIDTHS = 5  # widths that are measured
_SHARE = 4  # each batch of a width has this many times fewer tokens than the one before


@dataclass(frozen=True, order=True)
class Shape:
    """A batch: rows of one width, each of one sample, or packed."""

    rows: int
    width: int
    samples_per_row: int = 1

    @property
    def tokens(self) -> int:
        """Total tokens."""
        return self.rows * self.width

    @property
    def lengths(self) -> tuple[int, ...]:
        """(samples_per_row,) lengths of the samples of a row; they differ by at most one."""
        # The first `longer` samples have a token more than `short`.
        short, longer = divmod(self.width, self.samples_per_row)
        return tuple(short + (i < longer) for i in range(self.samples_per_row))

    @property
    def pairs(self) -> int:
        """Pairs of tokens that attend to each other: Σ length² of the samples of all rows."""
        return self.rows * sum(length**2 for length in self.lengths)

    def __str__(self) -> str:
        packed = f" of {self.samples_per_row} samples each" if self.samples_per_row > 1 else ""
        return f"{self.rows:,} x {self.width:,}{packed}"


def design(most_tokens: int, widest: int, *, packed: bool = False) -> list[Shape]:
    """Return the shapes to measure, those of the most tokens first.

    There are 5 widths, each the same share of the next wider one, and 3 sizes of batches of each,
    each a quarter of the next larger one. So the costs of a batch, of a token and of a pair of
    tokens can be told apart: widths of 16 to 1,024 and 16,384 tokens give 16 x 1,024, 4 x 1,024,
    1 x 1,024, 45 x 362 and so on.
    """
    narrowest = max(1, min(_NARROWEST, widest // _SHARE))
    ratio = (widest / narrowest) ** (1 / (_WIDTHS - 1))  # of a width to the next narrower one
    widths = [round(widest / ratio**i) for i in range(_WIDTHS)]
    sizes = [most_tokens // _SHARE**i for i in range(3)]  # total tokens of batches
    # A set, since small sizes may give one shape twice.
    shapes = {Shape(max(1, tokens // width), width) for width in widths for tokens in sizes}
    # Batches of one row, full of samples as long as the widest row, or a quarter of that.
    if packed:
        shapes |= {
            Shape(1, width, width // length)
            for width in (most_tokens, most_tokens // _SHARE)
            for length in (widest, max(1, widest // _SHARE))
            if width >= 2 * length  # at least two samples
        }
    return sorted(shapes, key=lambda shape: (-shape.tokens, -shape.width, shape.samples_per_row))
