"""Which samples an epoch visits, in which sequence, and how much of each: before any batching."""

from batchstat.sampling.epoch import OVERFLOWS, Epoch, make_epoch
from batchstat.sampling.order import BLOCK_SIZE, ORDERS, make_order

__all__ = ["BLOCK_SIZE", "ORDERS", "OVERFLOWS", "Epoch", "make_epoch", "make_order"]
