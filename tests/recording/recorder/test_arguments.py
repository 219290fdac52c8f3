"""What of the arguments of a forward is read: models with arguments of any name, in any sequence,
with masks and layouts of any kind, against what the loop itself counts.
"""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from batchstat import InputError
from batchstat.recording.collated import as_collated
from batchstat.recording.recorded_batches import batches_of
from batchstat.recording.recording import Recording
from batchstat.trainers.preflight.live_recording import live_recording
from conftest import needs

torch = needs("torch")

pytestmark = pytest.mark.torch
nn = torch.nn

PAD = 1
LENGTHS = st.lists(st.integers(1, 9), min_size=24, max_size=24)
NAMES = ["in_idx", "token_idx", "masked_ids", "x", "tokens_len", "src", "input_ids", "tgt"]
# Each takes which of (batch, width) are real.
MASKS: dict[str, Any] = {
    "attention_mask": lambda real: real.long(),
    "attention_mask of floats": lambda real: real.float(),
    "attention_mask of bfloat16": lambda real: real.bfloat16(),
    "attention_mask that is added": lambda real: torch.zeros(real.shape).masked_fill(
        ~real, -torch.inf
    ),
    "src_key_padding_mask": lambda real: ~real,
    "padding_mask that is added": lambda real: torch.zeros(real.shape).masked_fill(
        ~real, -torch.inf
    ),
    "mask": lambda real: real,
    "x_mask of floats": lambda real: real.float(),
    "pad_mask": lambda real: (~real).long(),
}


def padded(rows: list[Any]) -> Any:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def texts(lengths: list[int]) -> list[Any]:
    return [torch.arange(2, 2 + n) + place for place, n in enumerate(lengths)]


class Net(nn.Module):  # type: ignore[misc]
    """Computes token ids: `forward` is made with the names of its arguments."""

    def __init__(self, inner: Any = None, padding: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(99, 4, padding_idx=padding)
        self.segments, self.inner = nn.Embedding(99, 4), inner

    def compute(self, ids: Any, segments: Any = None) -> Any:
        values = self.embed(ids)
        values = values if segments is None else values + self.segments(segments)
        if self.inner is None:
            return values
        return self.inner(values)[0]


def model_of(names: list[str], used: list[str], *args: Any) -> Any:
    """A model whose arguments have these names, of which it computes those that are used."""
    scope: dict[str, Any] = {}
    code = f"def forward(self, {', '.join(names)}):\n    return self.compute({', '.join(used)})"
    exec(code, scope)  # noqa: S102
    return type("Made", (Net,), scope)(*args)


def record(folder: Path, loop: Any, dry_run: bool = False) -> Recording:
    with live_recording(folder, dry_run, None, lambda _: None) as run:
        loop()
    return run.recording


def train(model: Any, batches: Any, call: Any) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in batches:
        call(model, batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def parts_of(recording: Recording) -> list[Any]:
    return [part for batch in recording.ranks[0].batches for part in batch.parts]


def check(recording: Recording, lengths: list[int], size: int = 4) -> None:
    """The samples are rows of these lengths, each batch as wide as its longest."""
    parts = parts_of(recording)
    as_collated("run", parts, is_recorded=True)
    assert [n for part in parts for row in part.real for n in row] == lengths
    longest = [max(lengths[place : place + size]) for place in range(0, len(lengths), size)]
    assert [part.width for part in parts] == longest
    numbers = [n for batch in recording.ranks[0].batches for n in (batch.numbers or [[]])[0]]
    assert numbers == list(range(len(lengths)))


@settings(max_examples=60)
@given(data=st.data(), lengths=LENGTHS)
def test_token_ids_of_any_name_and_masks_of_any_kind(tmp_path_factory, data, lengths):
    name, kind = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from([None, *MASKS]))
    has_segments, has_labels = data.draw(st.booleans()), data.draw(st.booleans())
    is_squeezed, calls_forward = data.draw(st.booleans()), data.draw(st.booleans())
    mask = kind and kind.split()[0]
    extra = [each for each in (mask, has_segments and "seg_x", has_labels and "y") if each]
    names = data.draw(st.permutations([name, *extra]))
    used = [name, *(["seg_x"] if has_segments else [])]
    # Nothing but a mask or the embedding says what pads.
    model = model_of(names, used, None, None if mask else PAD)

    def collate(rows: list[Any]) -> Any:
        ids = padded(rows)
        real, moved = ids != PAD, torch.roll(ids, -1, dims=1)
        batch = {name: ids, "seg_x": real.long() * 0, "y": moved.masked_fill(~real, -100)}
        if mask:
            batch[mask] = MASKS[kind](real)
        return [batch[key][:, None] if is_squeezed else batch[key] for key in names]

    loader = torch.utils.data.DataLoader(texts(lengths), 4, collate_fn=collate)

    def call(model: Any, batch: Any) -> Any:
        # The loop squeezes what is embedded, and no mask.
        given = [
            each.flatten(1) if key in used else each for key, each in zip(names, batch, strict=True)
        ]
        return model.forward(*given) if calls_forward else model(*given)

    for dry in (False, True):
        folder = tmp_path_factory.mktemp("run")
        check(record(folder, lambda: train(model, loader, call), dry), lengths)


class Turned(nn.Module):  # type: ignore[misc]
    """Turns rows into columns for a module that takes columns, or the other way."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, values: Any) -> Any:
        return self.inner(values.transpose(0, 1))


LAYERS: dict[str, Any] = {
    "LSTM": lambda batch_first: nn.LSTM(4, 4, batch_first=batch_first),
    "GRU, 2 layers": lambda batch_first: nn.GRU(4, 4, 2, batch_first=batch_first),
    "Transformer": lambda batch_first: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 4, batch_first=batch_first), 1, enable_nested_tensor=False
    ),
}


@settings(max_examples=40)
@given(data=st.data(), lengths=LENGTHS)
def test_samples_are_the_columns_that_modules_take_as_such(tmp_path_factory, data, lengths):
    """Also batches as wide as they have rows, and models that turn what they embed."""
    layer, is_turned = data.draw(st.sampled_from([*LAYERS])), data.draw(st.booleans())
    takes_columns, size = data.draw(st.booleans()), data.draw(st.sampled_from([4, 6]))
    told = data.draw(st.sampled_from(["", "lengths", "x_padding_mask"]))
    inner = LAYERS[layer](not (takes_columns ^ is_turned))
    names = ["x", *([told] if told else [])]
    model = model_of(names, ["x"], Turned(inner) if is_turned else inner, None if told else PAD)

    def collate(rows: list[Any]) -> Any:
        ids = padded(rows)
        beside = {"lengths": torch.tensor(list(map(len, rows))), "x_padding_mask": ids == PAD}
        return [ids.T.contiguous() if takes_columns else ids, *(beside[key] for key in names[1:])]

    loader = torch.utils.data.DataLoader(texts(lengths), size, collate_fn=collate)
    for dry in (False, True):
        folder = tmp_path_factory.mktemp("run")
        run = record(folder, lambda: train(model, loader, lambda net, batch: net(*batch)), dry)
        check(run, lengths, size)


@settings(max_examples=10)
@given(lengths=LENGTHS, shared=st.booleans(), columns=st.booleans(), steps=st.booleans())
def test_an_encoder_and_a_decoder_are_one_batch(tmp_path_factory, lengths, shared, columns, steps):
    class Pair(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Embedding(99, 4, padding_idx=PAD)
            self.other = self.one if shared else nn.Embedding(99, 4)
            self.encoder = nn.GRU(4, 4, batch_first=not columns)

        def forward(self, src: Any, trg: Any) -> Any:
            encoded = self.encoder(self.one(src))[1]
            # As a decoder that is given its own tokens, one by one.
            parts = trg.unbind(0 if columns else 1) if steps else [trg]
            return encoded.sum() + sum(self.other(part).sum() for part in parts)

    def collate(rows: list[Any]) -> Any:
        both = padded(rows), padded([row[: 1 + len(row) // 2] + 40 for row in rows])
        return [each.T if columns else each for each in both]

    loader = torch.utils.data.DataLoader(texts(lengths), 4, collate_fn=collate)
    for dry in (False, True):
        folder = tmp_path_factory.mktemp("run")
        run = record(folder, lambda: train(Pair(), loader, lambda net, batch: net(*batch)), dry)
        expected = [(n, 1 + n // 2) for n in lengths]
        assert [row for part in parts_of(run) for row in part.real] == [
            [a + b] for a, b in expected
        ]
        longest = [max(expected[place : place + 4]) for place in range(0, 24, 4)]
        assert [part.widths for part in parts_of(run)] == longest


class Both(nn.Module):  # type: ignore[misc]
    """Embeds two arrays of one shape, each by an embedding of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Embedding(99, 4), nn.Embedding(99, 4)

    def forward(self, first: Any = None, second: Any = None) -> Any:
        return self.one(first) + self.other(second) if first is not None else torch.ones(1)


class OfBothKinds(Net):
    """Takes its rows for samples in one module, and its columns in the next."""

    def forward(self, x: Any) -> Any:
        return self.compute(x) + nn.GRU(4, 4, batch_first=True)(self.embed(x))[0]


def test_what_nothing_decides_is_said(tmp_path):
    batches = [padded(texts([3, 7, 5, 2])) for _ in range(3)]

    def loop(model: Any, call: Any) -> Any:
        return lambda: train(model, batches, call)

    for place, (run, why) in enumerate(
        [
            (loop(Both(), lambda net, ids: net(ids, ids + 1)), "`first` and `second` may be token"),
            (
                loop(OfBothKinds(nn.GRU(4, 4)), lambda net, ids: net(ids)),
                "by others the columns: give all",
            ),
            (lambda: Both()(), "no model was called with token ids"),
        ]
    ):
        with pytest.raises(InputError, match=why):
            batches_of(record(tmp_path / str(place), run))


def test_labels_and_features_beside_token_ids_are_none(tmp_path):
    """A forward that is given labels alone, beside features, has no token ids."""

    class Speech(Net):
        def forward(self, features: Any, lens: Any, y: Any) -> Any:
            return (features @ self.embed(torch.arange(5)).sum(1)) * lens + y.sum()

    batches = [torch.ones(4, 5)] * 3
    ones = torch.ones(4, 1, dtype=torch.long)
    run = record(
        tmp_path / "run",
        lambda: train(Speech(), batches, lambda net, each: net(each, 5 * ones, ones)),
    )
    assert not run.ranks
