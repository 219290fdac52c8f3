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
from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.lengths.arrays import Ints, first_of_groups, offsets_from_sizes, sum_groups
from batchstat.lengths.lost import Lost
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.profiling.chat_rows import ChatRows, chat_rows
from batchstat.profiling.inputs import has_columns
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples, keep_some
from batchstat.trainers.llama_factory.corpus import EFFICIENT_EOS
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments
from batchstat.words import counted


@dataclass(frozen=True, eq=False)
class Turns:
    """The turns of n samples. A turn is a prompt and the answer to it, of which the answer is
    trained.

    Attributes:
        prompts: (m,) tokens of the prompt of each of the m turns of all samples.
        answers: (m,) tokens of the answer of each turn.
        offsets: (n + 1,) sample i has the turns offsets[i] : offsets[i + 1].
    """

    prompts: Ints
    answers: Ints
    offsets: Ints

    @classmethod
    def of(cls, trained: TokenRanges) -> "Turns":
        """Build from the trained tokens of samples: each range of them is an answer, and what is
        between two ranges is a prompt. Ranges 3:5 and 8:9 are the prompts [3, 3] and the answers
        [2, 1].
        """
        offsets = trained.offsets // 2  # a range has two edges
        # (m,) where each answer begins and ends in its sample.
        begins, ends = trained.edges[::2], trained.edges[1::2]
        # (m,) a prompt begins where the answer before it ends, but at 0 in the first turn.
        prompt_begins = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(ends)]
        prompt_begins[first_of_groups(offsets)] = 0
        return cls(begins - prompt_begins, ends - begins, offsets)

    def lengths(self) -> Ints:
        """Return (n,) tokens of each sample."""
        return sum_groups(self.prompts + self.answers, self.offsets)

    def within(self, limit: int, *, last_first: bool = False) -> "Turns":
        """Return the turns after LLaMA-Factory has truncated each sample to `limit` tokens.

        From the first turn, or with `last_first` from the last one, each keeps what fits into the
        room that is left. If a prompt and its answer are too long together, an answer of less than
        half of the room stays whole, else a prompt of less than half of it does, else both are
        shortened in proportion. Source: `_encode_data_example` of supervised.py.
        """
        prompts, answers = np.zeros_like(self.prompts), np.zeros_like(self.answers)
        # (n,) how many tokens each sample may still have.
        room = np.full(len(self.offsets) - 1, limit, dtype=np.int64)
        for samples, turns in self._turn_by_turn(last_first):  # one turn of each sample at a time
            has_room = room[samples] > 0  # the turns of full samples stay empty
            samples, turns = samples[has_room], turns[has_room]
            prompts[turns], answers[turns] = _lengths_within(
                self.prompts[turns], self.answers[turns], room[samples]
            )
            room[samples] -= prompts[turns] + answers[turns]
        return Turns(prompts, answers, self.offsets)

    def answers_ended(self) -> "Turns":
        """Return the turns with one more token in each answer: the token that follows the answer,
        which efficient_eos trains as its end.

        Between turns, that is the first token of the next prompt, which then is one shorter; after
        the last turn, LLaMA-Factory appends a token to the sample.
        """
        is_kept = self.prompts + self.answers > 0  # truncation leaves turns empty
        # Each gives its first token to the answer before it, which the first of a sample lacks.
        gives_token = is_kept.copy()
        gives_token[first_of_groups(self.offsets)] = False
        return Turns(self.prompts - gives_token, self.answers + is_kept, self.offsets)

    def last_answers(self) -> npt.NDArray[np.bool_]:
        """Return (m,) whether each turn is the last one of its sample."""
        is_last = np.zeros(len(self.prompts), dtype=bool)
        # Samples without turns have no last one: their end is that of another sample.
        is_last[self.offsets[1:][np.diff(self.offsets) > 0] - 1] = True
        return is_last

    def trained(self, answers: npt.NDArray[np.bool_] | None = None) -> TokenRanges:
        """Return the trained tokens of each sample: those of its answers, or, given (m,) whether
        each turn counts, of these answers only.
        """
        chosen = np.ones(len(self.answers), dtype=bool) if answers is None else answers
        # Prompts and answers alternate: prompt, answer, prompt, answer, ...
        sizes = np.stack([self.prompts, self.answers], axis=1).reshape(-1)
        is_trained = np.stack([np.zeros_like(chosen), chosen], axis=1).reshape(-1)
        return TokenRanges.of_mask(np.repeat(is_trained, sizes), offsets_from_sizes(self.lengths()))

    def _turn_by_turn(self, last_first: bool) -> Iterator[tuple[Ints, Ints]]:
        """Yield the first turns of all samples, then the second ones, and so on; with `last_first`
        the last turns, then those before them. Each time: (k,) the samples that have so many turns,
        and (k,) the positions of these turns in `prompts` and `answers`.
        """
        counts = np.diff(self.offsets)  # turns of each sample
        for i in range(int(counts.max(initial=0))):  # `initial` is for no samples
            samples = np.flatnonzero(counts > i)
            turn_in_sample = counts[samples] - 1 - i if last_first else i
            yield samples, self.offsets[samples] + turn_in_sample


def _lengths_within(prompts: Ints, answers: Ints, limits: Ints) -> tuple[Ints, Ints]:
    """Return (n,) the tokens that are left of n prompts, and of the answers to them, if a prompt
    and its answer have at most `limits` tokens together: infer_seqlen of processor_utils.py.
    """
    # The tokens for an answer if both are shortened in proportion. As in infer_seqlen, the share is
    # rounded before it is multiplied, which decides about the result.
    share = answers / np.maximum(prompts + answers, 1)
    longest_answers = (limits * share).astype(np.int64)
    # A short prompt stays whole instead. A short answer has priority over it, and so comes last.
    longest_answers = np.where(prompts * 2 < limits, limits - prompts, longest_answers)
    longest_answers = np.where(answers * 2 < limits, limits, longest_answers)
    kept_answers = np.minimum(longest_answers, answers)
    return np.minimum(np.maximum(limits - kept_answers, 0), prompts), kept_answers


_OUT_OF_TURN = "whose turns are not user and assistant"


def prepare_chats(
    config: LlamaFactoryArguments, profile: Profile, max_length: int
) -> TrainedSamples:
    """Return the chats that LLaMA-Factory batches: those that are not held out for evaluation,
    without chats whose turns are in another sequence than user and assistant, and truncated.

    Raises:
        InputError: LLaMA-Factory stops at this corpus, no chat is left, or its treatment is not
            modelled.
    """
    _check_input_column(profile)
    rows = read_rows(profile)
    # `empty_system` is the place of the first such chat. It matters only without `template`, where
    # the tokenizer's own chat template counts.
    if rows.empty_system and config.template is None:
        raise InputError(
            f"{rows.empty_system}: a chat begins with an empty system message, which "
            "LLaMA-Factory leaves out",
            "remove it",
        )
    # Positions in the profile, but for `trained_rows`, which number the records of the files.
    trained, trained_rows, held_out, unused = choose_rows(profile, rows, config)
    # (n_samples,) whether user and assistant alternate in each chat of the profile.
    is_in_turn = ~np.isin(profile.records, rows.out_of_turn)
    in_turn = np.flatnonzero(is_in_turn[trained])
    # All chats that are held out are dropped; in `held_out`, -1 is a record that cannot be read.
    if len(held_out) and not is_in_turn[held_out[held_out >= 0]].any():
        raise InputError(
            f"val_size holds out {counted(len(held_out), 'chat')} {_OUT_OF_TURN}: LLaMA-Factory "
            "stops at an evaluation set without a chat",
            "raise val_size, or remove those",
        )
    if len(in_turn) == 0:
        raise InputError("no sample is left to train on", "raise max_samples, or lower val_size")
    if config.packing and len(in_turn) < len(trained_rows):  # some rows are dropped
        _check_packed_together(len(trained_rows), config)
    whole = keep_some(profile.take(trained), in_turn, _OUT_OF_TURN)
    # With packing, DataArguments takes one off cutoff_len.
    kept = _truncated(whole.profile, max_length - bool(config.packing), config)
    # With efficient_eos, a sample may be longer than the template made it: nothing is lost then.
    excess = np.maximum(whole.profile.lengths - kept.lengths, 0)
    indented_warning = Finding(
        "tokenizer/leading-space",
        f"{counted(rows.indented, 'chat')} with an answer that begins with whitespace: "
        "LLaMA-Factory tokenizes answers by themselves, which may give these another token",
    )
    return TrainedSamples(
        profile=kept,
        dropped=({"beyond max_samples": unused} if unused else {}) | dict(whole.dropped),
        held_out=len(held_out),
        lost=whole.lost + Lost.of_excess(excess),
        warnings=(indented_warning,) if rows.indented else (),
    )


def _check_input_column(profile: Profile) -> None:
    """Raise InputError for files in alpaca's format without a column `input`, at which
    LLaMA-Factory stops, too.
    """
    if profile.corpus.options.input_format != "alpaca":
        return
    for source in profile.corpus.sources:
        # None: the file lacks the column.
        if has_columns(source.path, CorpusOptions(text_column=("input",))) is None:
            raise InputError(
                f"{source.shown} has no column 'input', at which LLaMA-Factory stops",
                "add it, empty, or name the columns of the data set in dataset_info.json",
            )


def choose_rows(
    profile: Profile, rows: ChatRows, config: LlamaFactoryArguments
) -> tuple[Ints, Ints, Ints, int]:
    """Return which samples LLaMA-Factory trains on and evaluates on: of each file the first
    max_samples records, shuffled and split by val_size.

    Records that batchstat could not read are rows to LLaMA-Factory all the same, and so decide how
    the others are shuffled; as samples, they are -1.

    Returns:
        Positions in the profile of the samples to train on, in sequence, without -1; the numbers of
        the rows to train on, in sequence; positions of the samples that are held out, with -1; and
        the number of samples beyond max_samples.
    """
    # (n_files,) the rows of each file, and those of them that are used.
    file_sizes = used_sizes = np.array(rows.sizes)
    if config.max_samples is not None:
        used_sizes = np.minimum(file_sizes, config.max_samples)
    # (n_samples,) for each sample of the profile: its file, and its row in the file.
    file_starts = offsets_from_sizes(file_sizes)
    file = np.searchsorted(file_starts, profile.records, side="right") - 1
    row_in_file = profile.records - file_starts[file]
    is_used = row_in_file < used_sizes[file]
    # (n_used_rows,) for each used row, all files one after the other: its sample, or -1.
    sample_of_row = np.full(int(used_sizes.sum()), -1, dtype=np.int64)
    used_row = offsets_from_sizes(used_sizes)[file] + row_in_file
    sample_of_row[used_row[is_used]] = np.flatnonzero(is_used)
    trained_rows, held_out_rows = _split_rows(len(sample_of_row), config)
    trained, unused = sample_of_row[trained_rows], len(profile) - int(is_used.sum())
    return trained[trained >= 0], trained_rows, sample_of_row[held_out_rows], unused


def read_rows(profile: Profile) -> ChatRows:
    """Return how many records each file has, and which chats LLaMA-Factory treats differently.

    Raises:
        InputError: a chat has tools, or the files cannot be read again.
    """
    corpus = profile.corpus
    if not corpus.options.may_hold_chats and len(corpus.sources) == 1:
        # Without chats, only the number of records counts, which the profile of one file tells.
        rows = len(profile) + sum(corpus.skipped.values())
        none: Ints = np.zeros(0, dtype=np.int64)
        return ChatRows((rows,), out_of_turn=none, indented=0, with_tools="", empty_system="")
    rows_of_chats = chat_rows(profile)
    if rows_of_chats.with_tools:
        raise InputError(
            f"{rows_of_chats.with_tools}: a chat has tools or their results, which LLaMA-Factory "
            "renders in a format of its own",
            "remove it, or pass token ids with --tokens-column and --trained-column",
        )
    return rows_of_chats


def _split_rows(rows: int, config: LlamaFactoryArguments) -> tuple[Ints, Ints]:
    """Return the numbers of the rows that are trained on, in sequence, and of those held out."""
    size = config.val_size
    if size <= _NO_EVALUATION:
        return np.arange(rows), np.zeros(0, dtype=np.int64)
    # `Dataset.train_test_split` shuffles the rows and holds out the first; a share is rounded up.
    held_out = int(size) if size >= 1 else math.ceil(size * rows)
    if held_out >= rows:
        raise InputError(
            f"val_size={size:g} holds out all of {rows:,} samples for evaluation", "lower it"
        )
    shuffled: Ints = np.random.default_rng(config.seed).permutation(rows)
    return shuffled[held_out:], shuffled[:held_out]


_NO_EVALUATION = 1e-6
"""`split_dataset` of LLaMA-Factory holds samples out if val_size is above this."""


def _check_packed_together(rows: int, config: LlamaFactoryArguments) -> None:
    """Raise InputError if, of so many rows, those that are dropped decide which others are packed
    together. Each worker packs preprocessing_batch_size rows at a time, dropped ones included; if
    all rows are in one such batch, the dropped ones make no difference.
    """
    if rows > config.preprocessing_batch_size or (config.preprocessing_num_workers or 1) > 1:
        raise InputError(
            "packing with samples that LLaMA-Factory drops is not modelled for more than "
            f"preprocessing_batch_size={config.preprocessing_batch_size} samples or several "
            "preprocessing_num_workers",
            f"remove those {_OUT_OF_TURN}",
        )


def _truncated(profile: Profile, cutoff: int, config: LlamaFactoryArguments) -> Profile:
    """Return samples as LLaMA-Factory truncates them to `cutoff` tokens: their lengths, and which
    tokens are trained.

    Raises:
        InputError: it is unknown which tokens are answers, or tokens follow the last answer.
    """
    if profile.trained is None:
        raise InputError(
            "LLaMA-Factory truncates answers and prompts in proportion, but it is unknown which "
            "tokens are answers",
            "pass --messages-column with --assistant-only-loss, or "
            "--tokens-column with --trained-column",
        )
    whole = Turns.of(profile.trained)
    # Turns end with the last answer, so that what follows it is missing from their length.
    not_ended = np.flatnonzero(whole.lengths() != profile.lengths)
    if len(not_ended):
        raise InputError(
            f"record {int(profile.records[not_ended[0]]):,} has tokens after its last answer, as "
            "no sample of LLaMA-Factory has",
            "check which tokens are trained",
        )
    # With efficient_eos, one token is kept free for the end of the last answer.
    trains_end = config.template in EFFICIENT_EOS
    # With mask_history, the last turns have priority, and only the last answer is trained.
    turns = whole.within(cutoff - (1 if trains_end else 0), last_first=config.mask_history)
    if trains_end:
        turns = turns.answers_ended()
    lengths = turns.lengths()
    if config.train_on_prompt:  # every token is trained, as if each sample were one answer
        turns = Turns(lengths * 0, lengths, np.arange(len(lengths) + 1))
    answers = turns.last_answers() if config.mask_history else None
    return replace(profile, lengths=lengths, kinds={"trained": turns.trained(answers)})
