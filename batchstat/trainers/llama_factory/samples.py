"""The samples that LLaMA-Factory batches: its sequence, its evaluation set, its truncation.

Checked against LLaMA-Factory 0.9.5: `_load_single_dataset` of src/llamafactory/data/loader.py,
`split_dataset` of data_utils.py, `SupervisedDatasetProcessor` of processor/supervised.py; and
`Dataset.train_test_split` of src/datasets/arrow_dataset.py, datasets 4.0.
"""

import math
from dataclasses import replace

import numpy as np

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, counted
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.lengths.lost import Lost
from batchstat.lengths.turns import Turns
from batchstat.profiling.chat_rows import ChatRows, chat_rows
from batchstat.profiling.inputs import has_columns
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples, keep_some
from batchstat.trainers.llama_factory.corpus import EFFICIENT_EOS
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments

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
