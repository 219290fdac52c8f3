"""Collated batches of loaders: rows, widths, real and trained tokens, held against their makers."""

from collections import UserDict
from types import SimpleNamespace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import batchstat
from batchstat import InputError
from batchstat.recording import trainer_object
from conftest import ROOT, needs
from tables import in_turn

ROWS = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=5)
PAD = 0


def padded(rows, width=None, pad=PAD):
    width = width or max(map(len, rows))
    return np.array([row + [pad] * (width - len(row)) for row in rows])


def sizes(rows):
    return np.array(list(map(len, rows)))


class Named(NamedTuple):
    tokens: Any
    lengths: Any


def mask_of(rows, width=None):
    return (padded([[1] * len(row) for row in rows], width) != 0).astype(np.int64)


def labels_of(rows, prompts, width=None):
    made = [[-100] * min(p, len(r)) + r[p:] for r, p in zip(rows, prompts, strict=True)]
    return padded(made, width, -100)


KINDS = {
    "a mask": lambda rows: {"input_ids": padded(rows), "attention_mask": mask_of(rows)},
    "a padding mask": lambda rows: {
        "src": padded(rows),
        "src_key_padding_mask": mask_of(rows) == 0,
    },
    "lengths": lambda rows: {"tokens": padded(rows), "lengths": sizes(rows)},
    "nested": lambda rows: {"net_input": {"src_tokens": padded(rows), "src_lengths": sizes(rows)}},
    "a named tuple": lambda rows: Named(padded(rows), sizes(rows)),
    "an object": lambda rows: SimpleNamespace(input_ids=padded(rows), length=sizes(rows)),
    "lists": lambda rows: {
        "input_ids": padded(rows).tolist(),
        "attention_mask": mask_of(rows).tolist(),
    },
    "an encoding": lambda rows: UserDict(input_ids=padded(rows), attention_mask=mask_of(rows)),
    "a pair": lambda rows: ({"input_ids": padded(rows), "attention_mask": mask_of(rows)}, 1),
    "wider than its longest": lambda rows: {
        "input_ids": padded(rows, 32),
        "attention_mask": mask_of(rows, 32),
    },
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)  # of each kind
@given(batches=st.lists(ROWS, min_size=1, max_size=4))
def test_real_tokens_are_those_of_the_rows(kind, batches):
    row = batchstat.measure(map(KINDS[kind], batches))
    wide = 32 if kind.startswith("wider") else 0
    widths = [max(wide, *map(len, rows)) for rows in batches]
    counts = row.counts
    assert counts.real_tokens == sum(len(each) for rows in batches for each in rows)
    assert counts.total_tokens == sum(
        len(rows) * width for rows, width in zip(batches, widths, strict=True)
    )
    assert (counts.samples, counts.batches) == (sum(map(len, batches)), len(batches))


@given(batches=st.lists(ROWS, min_size=1, max_size=4), ranks=st.integers(1, 3))
def test_a_padding_id_that_is_named(batches, ranks):
    row = batchstat.measure(
        [(padded(rows),) for rows in batches], pad_token_id=PAD, world_size=ranks
    )
    again = (batches * ranks)[: -len(batches) % ranks]
    assert row.counts.real_tokens == sum(len(each) for rows in [*batches, *again] for each in rows)
    assert dict(row.reading.by) == {"pad_token_id 0": len(batches)}


def test_a_padding_id_is_guessed_where_many_rows_end_in_it():
    rows = [[5, 6, 7, 8], [5, 6], [9]]
    full = np.array([[5, 6], [7, 8]])  # without a padded row of its own
    found = batchstat.measure([padded(rows), full])
    assert found.counts.real_tokens == 7 + 4
    assert list(found.reading.by) == ["a guess: token 0, in which 2 of 5 rows end"]
    wide = batchstat.measure([padded(rows, 9)])  # no row is as long as that
    assert (wide.counts.real_tokens, wide.counts.total_tokens) == (7, 27)


@pytest.mark.parametrize(
    "ids",
    [
        [[1, 2], [3, 4]],  # no token ends two rows
        [[1, 2]],
        [[5, 9], [6, 9]],  # the end of the text ends them all
        [[1, 0], [2, 0], *([n, n + 1] for n in range(3, 12))],  # fewer than a quarter
    ],
)
def test_a_padding_id_is_not_guessed_from_less(ids):
    with pytest.raises(InputError, match="padding unknown: batch 0 says nothing of it"):
        batchstat.measure([np.array(ids)])


def test_time_major_batches_are_read_by_columns():
    batch = {"tokens": padded([[1, 2, 3], [4]]).T, "lengths": np.array([3, 1])}
    counts = batchstat.measure([batch]).counts
    assert (counts.rows, counts.real_tokens, counts.total_tokens) == (2, 4, 6)


@given(rows=ROWS, prompts=st.lists(st.integers(0, 5), min_size=5, max_size=5))
def test_labels_of_a_causal_model_are_shifted_by_it(rows, prompts):
    batch = KINDS["a mask"](rows) | {"labels": labels_of(rows, prompts[: len(rows)])}
    row = batchstat.measure([batch], loss="token-sum")
    trained = sum(
        len(each) - max(1, min(prompt, len(each)))
        for each, prompt in zip(rows, prompts, strict=False)
    )
    assert row.trained.tokens == trained
    assert dict(row.reading.loss) == {"shifted": 1}
    assert row.reading.trained_padding == 0


def test_labels_of_other_models_stand_where_they_are():
    rows = [[5, 6, 7], [8, 9]]
    masked = KINDS["a mask"](rows) | {"labels": np.array([[55, -100, -100], [-100, 99, -100]])}
    row = batchstat.measure([masked], loss="token-sum")
    assert (row.trained.tokens, dict(row.reading.loss)) == (2, {"as they are": 1})
    every = KINDS["a mask"](rows) | {"labels": padded([[6, 7, 1], [9, 1]], pad=-100)}
    assert batchstat.measure([every], loss="token-sum").trained.tokens == 5  # shifted already
    classes = KINDS["a mask"](rows) | {"labels": np.array([0, 1])}
    row = batchstat.measure([classes])
    assert (row.trained, dict(row.reading.loss)) == (None, {"of rows": 1})


def test_padding_that_carries_loss_is_counted():
    rows = [[5, 6, 7, 8], [9]]
    batch = KINDS["a mask"](rows) | {"labels": padded(rows)}  # 0 where it should be -100
    assert batchstat.measure([batch], loss="token-sum").reading.trained_padding == 3


def test_an_encoder_and_a_decoder_are_both_counted():
    rows, answers = [[5, 6, 7], [8]], [[1, 2], [3, 4, 5, 6, 7]]
    batch = KINDS["a mask"](rows) | {"labels": padded(answers, pad=-100)}
    row = batchstat.measure([batch, batch], loss="token-sum")
    assert row.counts.total_tokens == 2 * 2 * (3 + 5)
    assert row.counts.real_tokens == 2 * (4 + 7)
    assert row.trained.tokens == 2 * 7
    assert row.reading.widths.tolist() == [[3, 5], [3, 5]]


@pytest.mark.parametrize("pad", [None, 3])
def test_a_last_sample_of_equal_tokens_is_one(pad):
    ids, labels = np.array([[7, 8, 5, 5]]), np.array([[7, 8, -100, -100]])
    named = {"cu_seq_lens_q": np.array([0, 2, 4])}, {"position_ids": np.array([[0, 1, 0, 1]])}
    for by in named:
        batch = {"input_ids": ids, **by}
        assert batchstat.measure([batch], pad_token_id=pad).counts.real_tokens == 4
        assert batchstat.measure([batch], pad_token_id=5).counts.real_tokens == 2
    # As axolotl pads, whose padding has positions and no labels.
    assert batchstat.measure([batch | {"labels": labels}]).counts.real_tokens == 2


def test_a_row_of_padding_alone_is_no_sample():
    empty = np.zeros((1, 5), dtype=np.int64)
    batches = []
    for rows in ([[1, 2], [3]], [[4, 5, 6]]):
        ids, mask = padded(rows, 5), mask_of(rows, 5)
        made = {
            "input_ids": np.concatenate([ids, empty]),
            "attention_mask": np.concatenate([mask, empty]),
        }
        batches.append(
            made | {"labels": np.where(made["attention_mask"] == 1, made["input_ids"], -100)}
        )
    row = batchstat.measure(batches, loss="token-sum")
    counts = row.counts
    assert (counts.samples, counts.rows, counts.real_tokens, counts.total_tokens) == (3, 5, 6, 25)
    assert row.trained.tokens == 1 + 0 + 2
    nothing = {"input_ids": empty + 7, "attention_mask": empty}
    with pytest.raises(InputError, match="no real token: by attention_mask every token of every"):
        batchstat.measure([nothing, nothing])


def test_arrays_of_which_nothing_tells_the_token_ids_are_refused():
    ids = padded([[5, 6, 7], [8], [9]])
    with pytest.raises(
        InputError, match="batch 0: `0` and `1` may be token ids, and nothing tells"
    ):
        batchstat.measure([(ids, ids[::-1])])
    known = [(ids, np.roll(ids, -1, 1)), (mask_of([[1, 1, 1], [1], [1]]), ids), (ids, ids - 100)]
    for batch in known:  # labels, a mask, labels that are ignored
        assert batchstat.measure([batch], pad_token_id=0).counts.real_tokens == 5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_masks_of_floats_and_rows_tokenized_one_by_one(kind):
    rows = [[5, 6, 7], [8]]
    for mask in (mask_of(rows).astype(kind), np.where(mask_of(rows) == 1, 0, -np.inf).astype(kind)):
        batch = {"input_ids": padded(rows)[:, None], "attention_mask": mask[:, None]}
        counts = batchstat.measure([batch]).counts
        assert (counts.samples, counts.real_tokens, counts.total_tokens) == (2, 4, 6)


@pytest.mark.parametrize("width", [4, 3])
def test_labels_of_a_decoder_that_are_padding_are_that(width):
    """Whether its labels are as wide as its ids or not."""
    answers = padded([[1, 2, 9], [3, 9]], width)
    batch = KINDS["a mask"]([[5, 6, 7], [8]])
    row = batchstat.measure([batch | {"labels": answers}, both(2, 5)], loss="token-sum")
    assert row.counts.real_tokens == 4 + 5 + 2 * 7
    assert row.counts.total_tokens == 2 * (3 + width) + 2 * 7
    assert row.reading.trained_padding == 2 * width - 5
    ignored = padded([[1, 2, 0], [3, 0]], 4, pad=-100)  # 0 ends these texts
    assert batchstat.measure([batch | {"labels": ignored}]).counts.real_tokens == 4 + 5


def test_a_single_offset_delimits_no_sample():
    ids, pad = np.array([[5, 6, 7, 0]]), {"pad_token_id": 0}
    row = batchstat.measure([{"input_ids": ids, "cu_seqlens": np.array([0])}], **pad)
    assert row.counts == batchstat.measure([{"input_ids": ids}], **pad).counts


def test_samples_of_packed_rows_are_told_apart():
    ids, positions = np.arange(10)[None], np.array([[0, 1, 2, 0, 1, 0, 1, 2, 3, 4]])
    flat = batchstat.measure([{"input_ids": ids, "position_ids": positions}])
    ends = np.array([0, 3, 5, 10], dtype=np.int32)
    by_ends = batchstat.measure([{"input_ids": ids, "cu_seq_lens_q": ends}])
    labels = np.array([[-100, 1, 2, -100, 4, -100, -100, 7, 8, 9]])
    trained = batchstat.measure(
        [{"input_ids": ids, "position_ids": positions, "labels": labels}], loss="token-sum"
    )
    assert trained.trained.tokens == 6
    for row in (flat, by_ends, trained):
        assert (row.counts.samples, row.counts.rows, row.counts.padding_tokens) == (3, 1, 0)
        assert row.packs_rows
        assert row.counts.real_squared_tokens == 9 + 4 + 25
    mask = np.array([[1] * 8 + [0] * 2])
    row = batchstat.measure([{"input_ids": ids, "attention_mask": mask, "position_ids": positions}])
    assert (row.counts.samples, row.counts.real_tokens) == (3, 8)


@given(st.lists(st.integers(2, 9), min_size=2, max_size=9), st.integers(2, 16))
def test_what_pads_samples_laid_end_to_end_to_a_multiple_is_no_sample(lengths, multiple):
    ids = [7 + place % 5 for place in range(sum(lengths))]
    padding = -len(ids) % multiple
    positions = [place for length in lengths for place in range(length)] + [0] * padding
    batch = {"input_ids": np.array([ids + [3] * padding]), "position_ids": np.array([positions])}
    known = batchstat.measure([batch], pad_token_id=3)
    assert (known.counts.samples, known.counts.real_tokens) == (len(lengths), len(ids))
    if padding != 1:  # a single one may be a sample of one token
        assert batchstat.measure([batch]).counts.real_tokens == len(ids)


def test_padding_that_a_mask_takes_for_real():
    """As LLaMA-Factory pads packed rows; a text may end in the same token, and is trained on it."""
    ids = np.array([[5, 6, 7, 3, 3], [5, 6, 7, 8, 3], [5, 6, 7, 8, 3], [5, 6, 7, 8, 9]])
    labels = ids.copy()
    labels[0, 3:] = labels[1, 4] = -100
    batch = {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": labels}
    assert batchstat.measure([batch]).counts.real_tokens == 20
    assert batchstat.measure([batch], pad_token_id=3).counts.real_tokens == 3 + 4 + 5 + 5


def test_a_row_of_one_token_that_pads_is_one_that_a_mask_takes_for_real():
    """Two such tokens at the end of a row are padding, whatever the mask says; one is a text."""
    ids = np.full((3, 1), 7)
    batch = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    assert batchstat.measure([batch], pad_token_id=7).counts.real_tokens == 3


def test_answers_that_are_computed_together():
    one, other = [[1, 2, 3], [4]], [[5, 6], [7, 8]]
    batch = {
        f"{name}_{key}": value
        for name, rows in (("chosen", one), ("rejected", other))
        for key, value in KINDS["a mask"](rows).items()
    }
    row = batchstat.measure([batch])
    assert (row.counts.rows, row.counts.total_tokens, row.counts.real_tokens) == (4, 12, 8)


def flat(*lengths: int) -> dict[str, Any]:
    """Samples laid end to end in one row, as a padding-free collator makes it."""
    positions = [place for length in lengths for place in range(length)]
    ids = np.arange(len(positions))[None] + 7
    return {"input_ids": ids, "position_ids": np.array([positions])}


def test_a_single_sample_of_a_padding_free_loader_is_one_too():
    row = batchstat.measure([flat(3, 4), flat(5), flat(1, 1)])
    assert (row.counts.real_tokens, row.counts.padding_tokens) == (14, 0)
    assert row.counts.samples == 5
    row = batchstat.measure([flat(7), flat(3)])  # batches of one sample, each of its own length
    assert (row.counts.samples, row.counts.real_tokens, row.counts.padding_tokens) == (2, 10, 0)
    with pytest.raises(InputError, match="padding unknown"):  # any row may count its tokens
        batchstat.measure([flat(5)])


def both(encoder: int, decoder: int) -> dict[str, Any]:
    return {
        "input_ids": np.full((2, encoder), 7),
        "attention_mask": np.ones((2, encoder), dtype=np.int64),
        "labels": np.full((2, decoder), 8),
    }


def test_an_encoder_and_a_decoder_that_are_equally_wide_once():
    row = batchstat.measure([both(6, 3), both(4, 4), both(2, 5)])
    assert row.counts.total_tokens == 2 * (9 + 8 + 7)
    assert row.reading.widths.tolist() == [[6, 3], [4, 4], [2, 5]]
    named = {**both(4, 4), "decoder_input_ids": np.full((2, 4), 8)}
    assert batchstat.measure([named]).counts.total_tokens == 2 * 8
    assert batchstat.measure([both(4, 4)]).counts.total_tokens == 2 * 4


@in_turn(
    ("batches", "message"),
    [
        (
            [KINDS["a mask"]([[1]]), KINDS["lengths"]([[1]])],
            "several kinds: batch 0 has attention_mask, batch 1 has lengths",
        ),
        (
            [both(4, 3), KINDS["a mask"]([[1]])],
            "batch 0 has attention_mask and a decoder, batch 1 has attention_mask",
        ),
        (7, "must be batches, such as a DataLoader, or sample numbers with their lengths"),
        ([], "there is no batch"),
        ([{"text": ["a", "b"]}], "batch 0 has no token ids"),
        ([np.zeros((2, 3))], "batch 0 has no token ids"),
        ([KINDS["a mask"]([[1], [2]]), {}], "batch 1 has no token ids"),
    ],
)
def test_what_is_no_batch_of_tokens(batches, message):
    with pytest.raises(InputError, match=message):
        batchstat.measure(batches)


def test_an_endless_loader_is_stopped_by_steps(monkeypatch):
    from itertools import repeat

    from batchstat.recording import collated

    batch = KINDS["a mask"]([[1, 2], [3]])
    assert batchstat.measure(repeat(batch), steps=5).counts.batches == 5
    monkeypatch.setattr(collated, "_MOST_WITHOUT_LENGTH", 20)
    with pytest.raises(InputError, match="has no end after 20 batches: pass steps=N"):
        batchstat.measure(repeat(batch))


def test_what_a_trainer_needs_beside_it_is_what_the_package_needs():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, least in trainer_object.LEAST.items():
        assert f'"{name}>={".".join(map(str, least))}"' in text


def loaders(torch: Any, rows: list[list[int]]) -> dict[str, Any]:
    """The same samples in loaders of torch: dicts, tuples, a padding collator."""
    from torch.nn.utils.rnn import pad_sequence

    def collate(samples):
        ids = pad_sequence([torch.tensor(each) for each in samples], batch_first=True)
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.clone()}

    def as_tuple(samples):
        batch = collate(samples)
        return batch["input_ids"], torch.tensor([len(each) for each in samples])

    make = torch.utils.data.DataLoader
    return {
        "dicts with a mask": make(rows, batch_size=4, collate_fn=collate),
        "tuples": make(rows, batch_size=4, collate_fn=as_tuple),
        "ids": make(rows, batch_size=4, collate_fn=lambda samples: collate(samples)["input_ids"]),
    }


def check_loaders(made: dict[str, Any], lengths: list[int]) -> None:
    """Each has the numbers of the padding collator's own strategy."""
    plain = batchstat.compare(lengths, strategies="static:batch_size=4", order="file").current
    for kind, loader in made.items():
        given = {} if "mask" in kind else {"pad_token_id": 0}
        counts = batchstat.measure(loader, **given).counts
        for key in ("real_tokens", "total_tokens", "batches", "max_batch_tokens", "samples"):
            assert getattr(counts, key) == getattr(plain.counts, key), (kind, key)


def some_rows() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(1, 99, rng.integers(1, 50)).tolist() for _ in range(203)]


@pytest.mark.torch
def test_loaders_of_torch():
    torch = needs("torch")
    rows = some_rows()
    check_loaders(loaders(torch, rows), list(map(len, rows)))


@pytest.mark.torch
def test_loaders_of_others_of_torch():
    torch, rows = needs("torch"), some_rows()
    loader = loaders(torch, rows)["dicts with a mask"]
    accelerator = needs("accelerate").Accelerator(cpu=True)
    fabric = needs("lightning.fabric").Fabric(accelerator="cpu", devices=1)
    stateful = needs("torchdata.stateful_dataloader").StatefulDataLoader
    made = {
        "accelerate, mask": accelerator.prepare(loader),
        "lightning, mask": fabric.setup_dataloaders(loader),
        "stateful, mask": stateful(rows, batch_size=4, collate_fn=loader.collate_fn),
    }
    check_loaders(made, list(map(len, rows)))
