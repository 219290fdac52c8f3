"""The samples that LLaMA-Factory batches: its sequence, its evaluation set, its truncation.

Checked against LLaMA-Factory 0.9.5: `_load_single_dataset` of src/llamafactory/data/loader.py,
`split_dataset` of data_utils.py, `SupervisedDatasetProcessor` of processor/supervised.py; and
`Dataset.train_test_split` of src/datasets/arrow_dataset.py, datasets 4.0.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, counted
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.lost import Lost
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.chat_rows import ChatRows, chat_rows
from batchstat.profiling.inputs import has_columns
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples, keep_some
from batchstat.trainers.llama_factory.corpus import EFFICIENT_EOS
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments


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
        tokens: Ints = ends[self.offsets[1:]] - ends[self.offsets[:-1]]
        return tokens

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
            open_samples, open_turns = samples[open_], turns[open_]
            prompts[open_turns], answers[open_turns] = _shared(
                self.prompts[open_turns], self.answers[open_turns], left[open_samples]
            )
            left[open_samples] -= prompts[open_turns] + answers[open_turns]
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
        is_last = np.zeros(len(self.prompts), dtype=bool)
        is_last[self.offsets[1:][np.diff(self.offsets) > 0] - 1] = True
        return is_last

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


_IN_TURN = "whose turns are not user and assistant"


def prepare_chats(
    config: LlamaFactoryArguments, profile: Profile, max_length: int
) -> TrainedSamples:
    """Return what LLaMA-Factory keeps of chats. Raises InputError for what is not modelled."""
    _check_input(profile)
    rows = rows_of(profile)
    if rows.empty_system and config.template is None:
        raise InputError(
            f"{rows.empty_system}: a chat begins with an empty system message, which "
            "LLaMA-Factory leaves out: remove it"
        )
    chosen, order, held, beyond = chosen_rows(profile, rows, config)
    is_in_turn = ~np.isin(profile.records, rows.out_of_turn)
    in_turn = np.flatnonzero(is_in_turn[chosen])
    if len(held) and not is_in_turn[held[held >= 0]].any():
        raise InputError(
            f"val_size holds out {counted(len(held), 'chat')} {_IN_TURN}: LLaMA-Factory stops "
            "at an evaluation set without a chat: raise val_size, or remove those"
        )
    if len(in_turn) == 0:
        raise InputError("no sample is left to train on: raise max_samples, or lower val_size")
    if config.packing and len(in_turn) < len(order):
        _check_packed_together(len(order), config)
    whole = keep_some(profile.take(chosen), in_turn, _IN_TURN)
    # With packing, DataArguments makes cutoff_len one less.
    kept = _truncated(whole.profile, max_length - bool(config.packing), config)
    excess = np.maximum(whole.profile.lengths - kept.lengths, 0)
    indented = (
        f"{counted(rows.indented, 'chat')} with an answer that begins with whitespace: "
        "LLaMA-Factory tokenizes answers by themselves, which may give these another token"
    )
    return TrainedSamples(
        profile=kept,
        dropped=({"beyond max_samples": beyond} if beyond else {}) | dict(whole.dropped),
        held_out=len(held),
        lost=whole.lost + Lost.of_excess(excess),
        warnings=(indented,) if rows.indented else (),
    )


def _check_input(profile: Profile) -> None:
    """Raise InputError where LLaMA-Factory stops: instructions without a column for inputs."""
    if profile.corpus.options.input_format != "alpaca":
        return
    for source in profile.corpus.sources:
        if has_columns(source.path, CorpusOptions(text_column=("input",))) is None:
            raise InputError(
                f"{source.shown} has no column 'input', at which LLaMA-Factory stops: add it, "
                "empty, or name the columns of the data set in dataset_info.json"
            )


def chosen_rows(
    profile: Profile, rows: ChatRows, config: LlamaFactoryArguments
) -> tuple[Ints, Ints, Ints, int]:
    """Return the samples to train on in sequence, the rows of the data sets that may be samples,
    the samples that are held out (-1 for records that cannot be read), and how many are beyond
    max_samples.
    """
    starts = offsets_from_sizes(np.array(rows.sizes))
    used = np.array(rows.sizes)
    if config.max_samples is not None:
        used = np.minimum(used, config.max_samples)
    source = np.searchsorted(starts, profile.records, side="right") - 1
    within = profile.records - starts[source]
    is_used = within < used[source]
    samples = np.full(int(used.sum()), -1, dtype=np.int64)
    samples[(offsets_from_sizes(used)[source] + within)[is_used]] = np.flatnonzero(is_used)
    order, held = _trained_rows(len(samples), config)
    chosen = samples[order]
    return chosen[chosen >= 0], order, samples[held], len(profile) - int(is_used.sum())


def rows_of(profile: Profile) -> ChatRows:
    """Return the records of each file, and those of chats that are dropped."""
    corpus = profile.corpus
    if not corpus.options.may_hold_chats and len(corpus.sources) == 1:
        rows = len(profile) + sum(corpus.skipped.values())
        return ChatRows((rows,), np.zeros(0, dtype=np.int64), 0, "", "")
    found = chat_rows(profile)
    if found.with_tools:
        raise InputError(
            f"{found.with_tools}: a chat has tools or their results, which LLaMA-Factory renders "
            "in a format of its own: remove it, or pass token ids with --tokens-column and "
            "--trained-column"
        )
    return found


def _trained_rows(rows: int, config: LlamaFactoryArguments) -> tuple[Ints, Ints]:
    """Return the rows that are trained on in sequence, and those that are held out."""
    size = config.val_size
    if size <= _NO_EVALUATION:
        return np.arange(rows), np.zeros(0, dtype=np.int64)
    # `Dataset.train_test_split` rounds a share up, shuffles, and tests on the first.
    held_out = int(size) if size >= 1 else math.ceil(size * rows)
    if held_out >= rows:
        raise InputError(
            f"val_size={size:g} holds out all of {rows:,} samples for evaluation: lower it"
        )
    shuffled: Ints = np.random.default_rng(config.seed).permutation(rows)
    return shuffled[held_out:], shuffled[:held_out]


# `split_dataset` holds samples out above this.
_NO_EVALUATION = 1e-6


def _check_packed_together(rows: int, config: LlamaFactoryArguments) -> None:
    """Raise InputError where dropped samples change which others are packed together."""
    # Rows are packed in batches of this size, those that are dropped counted.
    if rows > config.preprocessing_batch_size or (config.preprocessing_num_workers or 1) > 1:
        raise InputError(
            "packing with samples that LLaMA-Factory drops is not modelled for more than "
            f"preprocessing_batch_size={config.preprocessing_batch_size} samples or several "
            f"preprocessing_num_workers: remove those {_IN_TURN}"
        )


def _truncated(profile: Profile, cutoff: int, config: LlamaFactoryArguments) -> Profile:
    """Return samples with the tokens that are left of them, and the trained ones of these."""
    if profile.trained is None:
        raise InputError(
            "LLaMA-Factory truncates answers and prompts in proportion, but it is unknown which "
            "tokens are answers: pass --messages-column with --assistant-only-loss, or "
            "--tokens-column with --trained-column"
        )
    whole = Turns.of(profile.trained)
    after = np.flatnonzero(whole.lengths() != profile.lengths)
    if len(after):
        raise InputError(
            f"record {int(profile.records[after[0]]):,} has tokens after its last answer, as no "
            "sample of LLaMA-Factory has: check which tokens are trained"
        )
    is_ended = config.template in EFFICIENT_EOS
    # One token is kept free for the end of the last answer.
    turns = whole.within(cutoff - is_ended, last_first=config.mask_history)
    if is_ended:
        turns = turns.answers_ended()
    lengths = turns.lengths()
    if config.train_on_prompt:
        turns = Turns(lengths * 0, lengths, np.arange(len(lengths) + 1))
    answers = turns.last_answers() if config.mask_history else None
    return replace(profile, lengths=lengths, kinds={"trained": turns.trained(answers)})
