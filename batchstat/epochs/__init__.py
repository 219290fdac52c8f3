"""An epoch as the ranks have it: visited, shared out, planned, dealt."""

from batchstat.epochs.dealt import deal, deal_groups, plan_shares
from batchstat.epochs.work import Work, drawn, make_work

__all__ = ["Work", "deal", "deal_groups", "drawn", "make_work", "plan_shares"]
