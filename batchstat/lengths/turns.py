"""`Turns`: chats as prompts and answers in turn, and what a limit leaves of each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.token_ranges import TokenRanges


@dataclass(frozen=True, eq=False)
class Turns:
    """The turns of n samples: a prompt, then the answer, which is trained.

    Attributes:
        prompts: (m,) tokens of the prompt of each turn.
        answers: (m,) tokens of its answer.
        offsets: (n + 1,) sample i has the turns offsets[i] to offsets[i + 1].
    """

    prompts: Ints
    answers: Ints
    offsets: Ints

    @classmethod
    def of(cls, trained: TokenRanges) -> "Turns":
        """Build from the answers, as ranges of the tokens of samples."""
        offsets = trained.offsets // 2
        begins, ends = trained.edges[::2], trained.edges[1::2]
        before = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(ends)]
        before[offsets[:-1][np.diff(offsets) > 0]] = 0
        return cls(begins - before, ends - begins, offsets)

    def lengths(self) -> Ints:
        """Return (n,) tokens of each sample."""
        ends = offsets_from_sizes(self.prompts + self.answers)
        found: Ints = ends[self.offsets[1:]] - ends[self.offsets[:-1]]
        return found

    def within(self, limit: int, *, last_first: bool = False) -> "Turns":
        """Return what `limit` tokens of each sample leave of its turns.

        Turn by turn, the first one first or the last one first, a prompt and its answer share what
        is left of the limit: an answer of less than half of it stays whole, then a prompt of less
        than half of it; otherwise both are shortened in proportion. Source:
        SupervisedDatasetProcessor._encode_data_example of src/llamafactory/data/processor/
        supervised.py and infer_seqlen of processor_utils.py, LLaMA-Factory 0.9.5.
        """
        prompts, answers = np.zeros_like(self.prompts), np.zeros_like(self.answers)
        left = np.full(len(self.offsets) - 1, limit, dtype=np.int64)
        for samples, turns in self._in_turn(last_first):
            open_ = left[samples] > 0
            some, at = samples[open_], turns[open_]
            prompts[at], answers[at] = _shared(self.prompts[at], self.answers[at], left[some])
            left[some] -= prompts[at] + answers[at]
        return Turns(prompts, answers, self.offsets)

    def answers_ended(self) -> "Turns":
        """Return turns each of whose answers has the token that follows it: the first one of the
        next prompt, or another at the end of the sample. Source: efficient_eos of the same.
        """
        held = self.prompts + self.answers > 0
        is_later = held.copy()
        is_later[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        return Turns(self.prompts - is_later, self.answers + held, self.offsets)

    def last_answers(self) -> npt.NDArray[np.bool_]:
        """Return (m,) which turns are the last of their sample."""
        found = np.zeros(len(self.prompts), dtype=bool)
        found[self.offsets[1:][np.diff(self.offsets) > 0] - 1] = True
        return found

    def trained(self, answers: npt.NDArray[np.bool_] | None = None) -> TokenRanges:
        """Return the tokens of the answers, or of those chosen, as ranges."""
        chosen = np.ones(len(self.answers), dtype=bool) if answers is None else answers
        sizes = np.stack([self.prompts, self.answers], axis=1).reshape(-1)
        is_trained = np.stack([np.zeros_like(chosen), chosen], axis=1).reshape(-1)
        return TokenRanges.of_mask(np.repeat(is_trained, sizes), offsets_from_sizes(self.lengths()))

    def _in_turn(self, last_first: bool) -> Iterator[tuple[Ints, Ints]]:
        """Yield the samples that have an i-th turn, and which it is of all, for each i."""
        sizes = np.diff(self.offsets)
        for i in range(int(sizes.max(initial=0))):
            samples = np.flatnonzero(sizes > i)
            first = self.offsets[samples]
            yield samples, first + (sizes[samples] - 1 - i if last_first else i)


def _shared(prompts: Ints, answers: Ints, limits: Ints) -> tuple[Ints, Ints]:
    """Return what limits leave of prompts and answers."""
    # The share before the product, as there: it decides what rounding gives.
    share = answers / np.maximum(prompts + answers, 1)
    most = (limits * share).astype(np.int64)
    most = np.where(prompts * 2 < limits, limits - prompts, most)
    most = np.where(answers * 2 < limits, limits, most)
    kept = np.minimum(most, answers)
    return np.minimum(np.maximum(limits - kept, 0), prompts), kept
