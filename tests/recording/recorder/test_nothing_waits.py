"""A device is not waited for. Tests have no GPU: tensors of the meta device stand in for its own,
since none of their numbers can be read, and fakes for its streams and events.
"""

from contextlib import nullcontext
from typing import Any, ClassVar

import pytest

from batchstat.recording.recorder import devices
from batchstat.recording.recorder.orders import Orders
from batchstat.recording.recorder.watching import record_here
from batchstat.recording.recording import RUN_FILE, read_recording
from conftest import needs

torch = needs("torch")
dispatch = needs("torch.utils._python_dispatch")

pytestmark = pytest.mark.torch

WAITS = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_to_copy"}
"""Operations of torch by which numbers leave a device, which is waited for."""


class Device(dispatch.TorchDispatchMode):
    """Takes tensors of the meta device for those of a device: they arrive by copies that are under
    way until an event says so, and in no other way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, Any] = {}
        self.kept: list[Any] = []

    def put(self, tensor: Any) -> Any:
        """Put a tensor on the device."""
        return self._known(torch.empty_like(tensor, device="meta"), tensor)

    def _known(self, tensor: Any, numbers: Any) -> Any:
        self.kept.append(tensor)  # else its id may be another's later
        self.numbers[id(tensor)] = numbers
        return tensor

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None):
        name, kwargs = function.overloadpacket.__name__, dict(kwargs or {})
        is_there = any(getattr(each, "is_meta", False) for each in args)
        if name == "empty":
            kwargs.pop("pin_memory", None)
        if name == "copy_" and is_there and not args[0].is_meta:
            assert args[2], "a copy that is waited for"
            return function(args[0], self.numbers[id(args[1])])
        assert not (is_there and name in WAITS), f"{name} waits for the device"
        made = function(*args, **kwargs)
        if name == "detach" and id(args[0]) in self.numbers:
            self._known(made, self.numbers[id(args[0])])
        return made


class Stream:
    def wait_stream(self, other: Any) -> None:
        assert other is not self


class Event:
    """An event to which the device comes when the test lets it."""

    made: ClassVar[list["Event"]] = []

    def __init__(self, enable_timing: bool = False) -> None:
        self.has_time, self.is_recorded, self.is_here = enable_timing, False, False
        Event.made.append(self)

    def record(self, stream: Any) -> None:
        assert stream is not None
        self.is_recorded = True

    def query(self) -> bool:
        assert self.is_recorded
        return self.is_here

    def synchronize(self) -> None:
        assert self.is_here or Event.may_wait, "an event is waited for"
        self.is_here = True

    may_wait = False

    def elapsed_time(self, other: "Event") -> float:
        assert self.has_time
        assert other.has_time
        return 1000.0 * (Event.made.index(other) - Event.made.index(self))


@pytest.fixture
def device(monkeypatch):
    side = Stream()
    cuda = torch.cuda
    monkeypatch.setattr(devices, "_stream_of", lambda *_: side)
    monkeypatch.setattr(cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(cuda, "current_stream", lambda *_: Stream())
    monkeypatch.setattr(cuda, "is_current_stream_capturing", lambda: Device.captures)
    monkeypatch.setattr(cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(cuda, "Event", Event)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    monkeypatch.setattr(Event, "made", [])
    monkeypatch.setattr(Event, "may_wait", False)
    monkeypatch.setattr(Device, "captures", False, raising=False)
    return Device()


def test_a_training_on_a_device_is_recorded_without_waiting(tmp_path, device):
    (tmp_path / RUN_FILE).write_text('{"id": "a", "created": "2026-01-01T00:00:00+00:00"}')
    with torch.device("meta"):
        net = torch.nn.Sequential(torch.nn.Embedding(50, 4), torch.nn.Linear(4, 1))

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, input_ids: Any, attention_mask: Any, labels: Any) -> Any:
            assert labels.shape == input_ids.shape
            return (self.net(input_ids) * attention_mask[..., None]).sum()

    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    recorder, patches = record_here(Orders(str(tmp_path), "a", b"key"))
    recorder.forwards.clock._device = torch.device("meta")
    expected = []
    with device:
        for step in range(1, 6):
            ids = torch.arange(3 * step).reshape(3, step) + 1
            mask = (torch.arange(step) <= torch.arange(3)[:, None]).long()
            expected.append([step, mask.sum(1).tolist(), int(mask[:, 1:].sum())])
            labels = ids.masked_fill(mask == 0, -100)
            batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
            Device.captures = step == 4  # in a graph, of which nothing is recorded
            model(**{name: device.put(each) for name, each in batch.items()}).backward()
            optimizer.step()
            for event in Event.made[:-4]:  # the device is a step behind
                event.is_here = True
    [path] = [each for each in tmp_path.glob("*.jsonl") if each.name != "processes.jsonl"]
    assert '"k":"batch"' in path.read_text()
    written = path.read_text().count('"k":"batch"')
    assert written < len(expected) - 1
    Event.may_wait = True  # at the end of a process
    recorder.close()
    patches.restore()
    del expected[3]
    [rank] = read_recording(tmp_path).ranks
    found = [
        [part.width, [row[0] for row in part.real], sum(row[0] for row in part.trained)]
        for batch in rank.batches
        for part in batch.parts
    ]
    assert found == expected
    assert all(batch.ended > batch.began for batch in rank.batches)


def test_the_stand_in_notices_what_waits(device):
    numbers = device.put(torch.arange(3))
    for wait in (torch.nonzero, int, bool, lambda each: each.tolist(), lambda each: each.cpu()):
        with device, pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
            wait(numbers[0] if wait in (int, bool) else numbers)
