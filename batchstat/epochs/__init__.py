"""An epoch as the ranks have it: visited, shared out, planned, dealt."""

from batchstat.epochs.dealt import deal, plan_shares
from batchstat.epochs.work import Work, drawn, make_work

__all__ = ["Work", "deal", "drawn", "make_work", "plan_shares"]
