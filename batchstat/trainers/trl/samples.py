"""The samples that TRL's SFTTrainer batches: of which columns, truncated, dropped, shuffled.
Checked against TRL 1.16: `SFTTrainer._prepare_dataset` in trl/trainer/sft_trainer.py; and
`Dataset.shuffle` of datasets.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from batchstat.corpus.chat import SETTINGS_COLUMN
from batchstat.corpus.options import Content
from batchstat.errors import InputError
from batchstat.lengths.max_length import Lost
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.samples import TrainedSamples, drop_untrained, keep_all, keep_some
from batchstat.trainers.trl.keys import KEEP_END, SftConfig
from batchstat.words import counted

_KINDS: frozenset[Content] = frozenset({"messages", "completion"})
"""Contents that may be chats: also the names of the columns that have them."""


def columns(config: SftConfig) -> tuple[dict[str, Any], ...]:
    """Return the columns that TRL looks for, in its sequence, as keywords of `profile`."""
    messages = {"messages_column": "messages", "chat_format": "openai"}
    # Only chats in messages are modelled then; without such a column, `no_columns` says so.
    if config.assistant_only_loss:
        return ({**messages, "assistant_only_loss": True},)
    return (
        # First of the masks comes labels: TRL takes it as it is, whatever masks stand beside it.
        *({"tokens_column": "input_ids", "trained_column": mask} for mask in _masks(config)),
        {"tokens_column": "input_ids"},
        {"prompt_column": "prompt", "completion_column": "completion", "chat_format": "openai"},
        # `maybe_convert_to_chatml` makes a column messages of it, in place of one that is there.
        {"messages_column": "conversations", "chat_format": "sharegpt"},
        messages,
        {"text_column": (config.dataset_text_field,)},
    )


def _masks(config: SftConfig) -> tuple[str, ...]:
    masks = ("labels", "assistant_masks")
    return (*masks, "completion_mask") if config.completion_only_loss else masks


def refused_columns(config: SftConfig, content: Content) -> dict[str, str]:
    """Return columns that make TRL treat samples differently, with what it does and the remedy."""
    refused = dict.fromkeys(("image", "images"), "TRL takes it for images: remove or rename it")
    if config.padding_free and not config.packing:
        refused["seq_lengths"] = (
            "TRL takes it for the lengths of samples that are packed already, which are not read "
            "here: remove or rename it, or preflight the trainer itself"
        )
    if content == "tokens":  # TRL takes token ids as they are, whatever else stands beside them
        return refused
    refused |= dict.fromkeys(
        _masks(config), "TRL takes it for that of token ids: remove or rename it"
    )
    if content != "completion":
        refused["prompt"] = (
            "TRL takes it for the beginning of samples with a column completion, and stops where "
            "there is none: remove or rename the column"
        )
    if content == "text":
        refused[SETTINGS_COLUMN] = (
            "TRL looks at it for texts too, and stops where it is null: remove it"
        )
    if content in _KINDS:
        # `is_conversational` pops one of these columns from a set, and looks for chats in that one:
        # which one it is depends on the hashes of their names, and so differs between runs.
        refused |= dict.fromkeys(
            (*(_KINDS - {content}), "chosen", "rejected"),
            f"TRL looks at it or at {content}, by chance, for chats: remove or rename it",
        )
    return refused


def prepare(config: SftConfig, profile: Profile, max_length: int) -> TrainedSamples:
    """Return the samples that TRL batches: without empty ones, truncated, without those that have
    no trained token left, and shuffled. Raises InputError: TRL stops at it, or none is left.
    """
    if config.assistant_only_loss:
        _check_answers(profile)
    is_pair = profile.corpus.options.content == "completion"
    if is_pair and config.completion_only_loss is False:
        profile = replace(profile, kinds={})  # prompts are trained, too
    samples = keep_all(profile, max_length)
    # Chats of which a template renders nothing are in no batch: truncation drops them, and packed
    # rows hold nothing of them. A corpus of such chats alone is kept: `keep_some` has to keep one.
    if config.max_length is not None and profile.lengths.any():
        samples = keep_some(profile, np.flatnonzero(profile.lengths), "without tokens")
    if config.max_length is not None and not config.packing:
        profile, lost = samples.profile, samples.lost
        if config.truncation_mode == KEEP_END:
            # The beginning is cut off here: batching truncates at the end of samples only.
            excess = np.maximum(profile.lengths - max_length, 0)
            kinds = {kind: ranges.since(excess) for kind, ranges in profile.kinds.items()}
            profile = replace(profile, lengths=profile.lengths - excess, kinds=kinds)
            lost += Lost(int(np.count_nonzero(excess)), int(excess.sum()))
        kept = drop_untrained(profile, max_length)
        dropped = {**samples.dropped, **kept.dropped}
        samples = replace(kept, dropped=dropped, lost=lost + kept.lost)
    if config.shuffle_dataset:
        # The sequence of `Dataset.shuffle`. The strategy of packed rows shuffles those by itself.
        order = np.random.default_rng(config.seed).permutation(len(samples.profile))
        samples = replace(samples, profile=samples.profile.take(order))
    return samples


def _check_answers(profile: Profile) -> None:
    """Raise InputError for a chat without a token of an assistant, at which TRL stops, too."""
    if profile.trained is None or profile.corpus.options.content != "messages":
        return
    untrained = int(np.count_nonzero(profile.trained.counts() == 0))
    if untrained:
        raise InputError(
            f"{counted(untrained, 'chat')} of {len(profile):,} without a token of an assistant, at "
            "which TRL stops under assistant_only_loss=true",
            "remove them, check their roles, or "
            "pass a template that marks answers with --chat-template",
        )
