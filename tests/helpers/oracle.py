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


def length_grouped(lengths: list[int], *, batch_size: int, group: int | None) -> list[list[int]]:
    n = len(lengths)
    size = (group or max(1, min(n // (batch_size * 4), 50))) * batch_size
    groups = [longest_first(each, lengths) for each in windows(n, size)]
    heads = [lengths[each[0]] for each in groups]
    longest = heads.index(max(heads))
    groups[0][0], groups[longest][0] = groups[longest][0], groups[0][0]
    return consecutive([position for each in groups for position in each], batch_size)


def boundaries(
    lengths: list[int], *, edges: list[int], tokens_per_batch: int, leftovers: str, multiple: int
) -> list[list[int]]:
    """Whole batches as they fill, then what is left of the buckets."""
    whole, left = [], []
    for low, high in zip([-1, *edges], edges, strict=False):
        inside = [i for i, length in enumerate(lengths) if low < length <= high]
        size = max(1, tokens_per_batch // round_up(high, multiple))
        batches = consecutive(inside, size)
        if batches and len(batches[-1]) < size:
            left.append((round_up(high, multiple), batches.pop()))
        whole += batches
    whole.sort(key=lambda batch: batch[-1])
    if leftovers == "drop":
        return whole
    if leftovers == "keep":
        return whole + [batch for _, batch in left]
    merged: list[list[int]] = []
    room = 0
    for width, batch in reversed(left):
        for position in batch:
            if room == 0:
                merged.append([])
                room = max(1, tokens_per_batch // width)
            merged[-1].append(position)
            room -= 1
    return whole + merged


def edges(lengths: list[int], buckets: int, cost, multiple: int, least: int) -> float:
    """The least cost of all ways to choose at most so many edges."""
    from itertools import combinations

    values = sorted({round_up(length, multiple) for length in lengths})
    found = float("inf")
    for k in range(min(buckets, len(values))):
        for inner in combinations(values[:-1], k):
            chosen = [*inner, values[-1]]
            above = [min(edge for edge in chosen if edge >= length) for length in lengths]
            if all(above.count(edge) >= least for edge in chosen):
                found = min(found, sum(map(cost, above)))
    return found


def max_tokens(
    lengths: list[int], *, tokens_per_batch: int, multiple: int, max_samples: int | None
) -> list[list[int]]:
    """fairseq's batches, told by lists: a batch that could be closed, and what waits behind it."""

    def over(positions: list[int]) -> bool:
        return len(positions) * max(lengths[i] for i in positions) > tokens_per_batch

    done: list[list[int]] = []
    batch: list[int] = []
    waiting: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        waiting.append(position)
        both = batch + waiting
        if over(both) or (max_samples is not None and len(both) > max_samples):
            done.append(batch)
            if over(waiting):
                done.append(waiting[:-1])
                waiting = waiting[-1:]
            batch, waiting = waiting, []
        elif len(both) < multiple or len(both) % multiple == 0:
            batch, waiting = both, []
    done = [each for each in (*done, batch, waiting) if each]
    if done and len(done[-1]) % multiple:
        done.pop()
    return done


def grouped(lengths: list[int], *, batch_size: int, thresholds: list[int]) -> list[list[list[int]]]:
    """Steps of batches."""
    steps = []
    for step in consecutive(list(range(len(lengths))), batch_size):
        groups: dict[int, list[int]] = {}
        for position in step:
            over = sum(lengths[position] > threshold for threshold in thresholds)
            groups.setdefault(over, []).append(position)
        steps.append([groups[key] for key in sorted(groups)])
    return steps


def dynamic_buckets(
    lengths: list[int], *, edges: list[int], tokens_per_batch: int, max_samples: int | None
) -> list[list[int]]:
    """What lhotse draws from buckets that hold all samples from the start, unshuffled."""
    found = []
    for low, high in zip([-1, *edges], edges, strict=False):
        batch: list[int] = []
        for i in (i for i, length in enumerate(lengths) if low < length <= high):
            batch.append(i)
            one_more = (len(batch) + 1) * max(lengths[j] for j in batch)
            if one_more > tokens_per_batch or len(batch) == max_samples:
                found.append(batch)
                batch = []
        found += [batch] if batch else []
    return found


def equal_parts(numbers: list[int], count: int, *, equal_size: bool) -> list[list[int]]:
    """Karmarkar and Karp's method in plain loops over lists of positions, greatest first."""

    def key(part: list[int]) -> tuple[int, int, list[int]]:
        return sum(numbers[i] for i in part), len(part), part

    def spread(parts: list[list[int]]) -> tuple[int, tuple[int, int, list[int]]]:
        return key(parts[0])[0] - key(parts[-1])[0], key(parts[0])

    rising = sorted(range(len(numbers)), key=numbers.__getitem__)
    apart = consecutive(rising, count) if equal_size else [[i] for i in rising]
    divisions = [
        sorted([[i] for i in some], key=key, reverse=True) + [[]] * (count - len(some))
        for some in apart
    ]
    while len(divisions) > 1:
        divisions.sort(key=spread)
        first, second = divisions.pop(), divisions.pop()
        together = [a + b for a, b in zip(first, second[::-1], strict=True)]
        divisions.append(sorted(together, key=key, reverse=True))
    return [sorted(part) for part in divisions[0]]
