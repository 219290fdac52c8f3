"""Which samples an epoch visits, in which sequence, and how much of each: before any batching."""

from batchstat.sampling.classes import Classes
from batchstat.sampling.dealing import DEALS, TAILS, deal_balanced, deal_in_turn, deal_parts
from batchstat.sampling.epoch import OVERFLOWS, Epoch, make_epoch, some_of
from batchstat.sampling.order import BLOCK_SIZE, ORDERS, make_order, stream_order
from batchstat.sampling.samples import Samples
from batchstat.sampling.torch_random import torch_multinomial, torch_permutation

__all__ = [
    "BLOCK_SIZE",
    "DEALS",
    "ORDERS",
    "OVERFLOWS",
    "TAILS",
    "Classes",
    "Epoch",
    "Samples",
    "deal_balanced",
    "deal_in_turn",
    "deal_parts",
    "make_epoch",
    "make_order",
    "some_of",
    "stream_order",
    "torch_multinomial",
    "torch_permutation",
]
