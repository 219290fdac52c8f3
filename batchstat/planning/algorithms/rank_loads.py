"""Batches of many optimizer steps given to ranks, so that the slowest rank finishes soonest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from batchstat.lengths.arrays import Floats, Ints

SWAPS = 8  # exchanges of batches with the slowest rank of a step that are tried


def meet_in_turns(costs: Floats, world_size: int) -> tuple[Floats, Ints]:
    """Let batches of similar cost meet: those of a turn are consecutive ones, sorted by cost.
    Returns, of (n_steps, n_batches) `costs`, (n_steps,) what the slowest rank of each turn
    computes, in all; and (n_steps, n_batches) the place of each batch: turn × `world_size` + rank.
    """
    order = np.argsort(-costs, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(costs.shape[1])[None, :], axis=1)
    # The first batch of each turn is the largest of it.
    slowest = np.take_along_axis(costs, order[:, ::world_size], axis=1)
    return slowest.sum(axis=1), places


def share_evenly(costs: Floats, world_size: int, swaps: int = SWAPS) -> tuple[Floats, Ints]:
    """Give each rank equally many batches of similar cost in all: the largest first, each to the
    rank that has least and lacks one (Graham's longest processing time); then exchange batches of
    the slowest rank while that helps, `swaps` times at most. Returns, of (n_steps, n_batches)
    `costs`, (n_steps,) what the slowest rank computes; and places as `meet_in_turns`. A rank
    computes its largest batch first.
    """
    n_steps, n_batches = costs.shape
    per_rank = n_batches // world_size
    steps = np.arange(n_steps)
    order = np.argsort(-costs, axis=1, kind="stable")
    loads = np.zeros((n_steps, world_size))
    open_loads = loads.copy()  # endless of a rank that has all its batches
    n_held = np.zeros((n_steps, world_size), dtype=np.int64)
    held = np.zeros((n_steps, world_size, per_rank), dtype=np.int64)  # the batches of each rank
    for batch in order.T:
        rank = open_loads.argmin(axis=1)
        nth = n_held[steps, rank]
        held[steps, rank, nth] = batch
        n_held[steps, rank] = nth + 1
        load = loads[steps, rank] + costs[steps, batch]
        loads[steps, rank] = load
        open_loads[steps, rank] = np.where(nth + 1 < per_rank, load, np.inf)
    for _ in range(swaps):
        if not _swap_one(costs, loads, held):
            break
    # Within a rank the largest first.
    places = np.empty((n_steps, n_batches), dtype=np.int64)
    held_costs = np.take_along_axis(costs, held.reshape(n_steps, -1), axis=1).reshape(held.shape)
    turn_of = np.argsort(np.argsort(-held_costs, axis=2, kind="stable"), axis=2)
    place_of = turn_of * world_size + np.arange(world_size)[None, :, None]
    np.put_along_axis(places, held.reshape(n_steps, -1), place_of.reshape(n_steps, -1), axis=1)
    return loads.max(axis=1), places


def _swap_one(costs: Floats, loads: Floats, held: Ints) -> bool:
    """Exchange, in each step, a batch of the slowest rank for another rank's: the pair after which
    the slower of the two computes least. Changes `loads` and `held`; returns whether that helped.
    """
    n_steps, _, per_rank = held.shape
    steps = np.arange(n_steps)
    slowest = loads.argmax(axis=1)
    most = loads[steps, slowest]
    given = held[steps, slowest]  # (n_steps, per_rank)
    others = held.reshape(n_steps, -1)
    # (n_steps, per_rank, n_batches) by how much the slowest rank gets less with each pair.
    saved = (
        np.take_along_axis(costs, given, axis=1)[:, :, None]
        - np.take_along_axis(costs, others, axis=1)[:, None, :]
    )
    other_loads = np.repeat(loads, per_rank, axis=1)[:, None, :]
    slower = np.maximum(most[:, None, None] - saved, other_loads + saved)
    # Within the slowest rank itself nothing changes.
    is_own = np.repeat(np.arange(loads.shape[1]), per_rank)[None, :] == slowest[:, None]
    slower[np.broadcast_to(is_own[:, None, :], slower.shape)] = np.inf
    best = slower.reshape(n_steps, -1).argmin(axis=1)
    mine, theirs = np.divmod(best, others.shape[1])
    improved = np.flatnonzero(slower.reshape(n_steps, -1)[steps, best] < most)
    if len(improved) == 0:
        return False
    mine, theirs, slow = mine[improved], theirs[improved], slowest[improved]
    rank, place = np.divmod(theirs, per_rank)
    change = saved[improved, mine, theirs]
    held[improved, slow, mine], held[improved, rank, place] = (
        held[improved, rank, place],
        held[improved, slow, mine],
    )
    loads[improved, slow] -= change
    loads[improved, rank] += change
    return True
