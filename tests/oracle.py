"""The strategies as slow plain loops over Python lists, written from their definitions alone."""

from dataclasses import dataclass


@dataclass
class Batch:
    positions: list[int]
    width: int


def round_up(length: int, multiple: int) -> int:
    while length % multiple:
        length += 1
    return length


def windows(n: int, read_ahead: int) -> list[list[int]]:
    result = []
    positions = list(range(n))
    while positions:
        result.append(positions[:read_ahead])
        positions = positions[read_ahead:]
    return result


def consecutive(positions: list[int], size: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for position in positions:
        if not batches or len(batches[-1]) == size:
            batches.append([])
        batches[-1].append(position)
    return batches


def longest_first(positions: list[int], lengths: list[int]) -> list[int]:
    return sorted(positions, key=lambda position: lengths[position], reverse=True)


def fixed(lengths: list[int], *, batch_size: int, max_length: int, multiple: int = 1):
    return [
        Batch(batch, round_up(max_length, multiple))
        for batch in consecutive(list(range(len(lengths))), batch_size)
    ]


def static(lengths: list[int], *, batch_size: int, multiple: int = 1):
    return [
        Batch(batch, round_up(max(lengths[i] for i in batch), multiple))
        for batch in consecutive(list(range(len(lengths))), batch_size)
    ]


def bucketed(lengths: list[int], *, batch_size: int, read_ahead: int, multiple: int = 1):
    batches = []
    for window in windows(len(lengths), read_ahead):
        for batch in consecutive(longest_first(window, lengths), batch_size):
            batches.append(Batch(batch, round_up(max(lengths[i] for i in batch), multiple)))
    return batches


def token_budget(
    lengths: list[int],
    *,
    tokens_per_batch: int,
    read_ahead: int,
    max_samples: int | None = None,
    multiple: int = 1,
):
    batches: list[Batch] = []
    for window in windows(len(lengths), read_ahead):
        open_batch: Batch | None = None
        for position in longest_first(window, lengths):
            if open_batch is not None:
                size = len(open_batch.positions) + 1
                fits = size * open_batch.width <= tokens_per_batch
                if fits and (max_samples is None or size <= max_samples):
                    open_batch.positions.append(position)
                    continue
            open_batch = Batch([position], round_up(lengths[position], multiple))
            batches.append(open_batch)
    return batches


def total_tokens(batches: list[Batch]) -> int:
    return sum(len(batch.positions) * batch.width for batch in batches)


def best_fit(lengths: list[int], capacity: int, most: int) -> list[int]:
    """The row of each sample: the fullest with room, and of those the one that became so first."""
    rows: list[int] = []
    room: list[int] = []
    taken: list[int] = []
    since: list[int] = []
    for now, length in enumerate(lengths):
        size = max(length, 1)
        fitting = [r for r in range(len(room)) if room[r] >= size and taken[r] < most]
        if fitting:
            row = min(fitting, key=lambda r: (room[r], since[r]))
        else:
            row = len(room)
            room.append(max(capacity, size))
            taken.append(0)
            since.append(0)
        room[row] -= size
        taken[row] += 1
        since[row] = now
        rows.append(row)
    return rows


def first_fit(lengths: list[int], capacity: int, most: int) -> list[int]:
    """The row of each sample: the first with room."""
    rows: list[int] = []
    room: list[int] = []
    taken: list[int] = []
    for length in lengths:
        size = max(length, 1)
        for row in range(len(room)):
            if room[row] >= size and taken[row] < most:
                break
        else:
            row = len(room)
            room.append(max(capacity, size))
            taken.append(0)
        room[row] -= size
        taken[row] += 1
        rows.append(row)
    return rows


def next_fit(lengths: list[int], capacity: int, most: int) -> list[int]:
    """The row of each sample: the last, or a new one."""
    rows: list[int] = []
    row = room = taken = 0
    for i, length in enumerate(lengths):
        if i and (length > room or taken == most):
            row, room, taken = row + 1, capacity, 0
        elif not i:
            room = capacity
        room -= length
        taken += 1
        rows.append(row)
    return rows


def wrapped(lengths: list[int], capacity: int) -> list[list[tuple[int, int]]]:
    """Rows of (sample, token): all tokens in turn, cut every `capacity`."""
    tokens = [(i, j) for i, length in enumerate(lengths) for j in range(length)]
    return [tokens[first : first + capacity] for first in range(0, len(tokens), capacity)]
