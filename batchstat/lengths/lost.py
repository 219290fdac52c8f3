"""`Lost`: what of the samples of a corpus is not trained on."""

from dataclasses import astuple, dataclass
from operator import add


@dataclass(frozen=True)
class Lost:
    """What is lost of samples that are truncated or dropped."""

    truncated_samples: int = 0  # number of truncated samples
    truncated_tokens: int = 0  # tokens lost by truncation
    dropped_samples: int = 0  # number of samples dropped
    dropped_tokens: int = 0  # tokens of the dropped samples

    @classmethod
    def of(cls, longer: int, excess: int, max_length: int, overflow: str) -> "Lost":
        """Return what `overflow` loses of the samples that are longer than `max_length`."""
        if overflow == "truncate":
            return cls(truncated_samples=longer, truncated_tokens=excess)
        if overflow == "drop":
            # A dropped sample loses its first `max_length` tokens too.
            return cls(dropped_samples=longer, dropped_tokens=excess + longer * max_length)
        return cls()

    def __add__(self, other: "Lost") -> "Lost":
        """Return what is lost by both."""
        return Lost(*map(add, astuple(self), astuple(other)))


NOTHING = Lost()
