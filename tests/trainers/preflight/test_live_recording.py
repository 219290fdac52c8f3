"""`batchstat.record` without a trainer: what trainers do with their callbacks before they train."""

import copy
import pickle

import batchstat


def test_a_callback_goes_to_the_processes_that_a_trainer_spawns():
    made = batchstat.record("my-run", steps=3)
    for same in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):  # noqa: S301
        assert (same._output, same._is_dry, same._steps) == ("my-run", False, 3)
        assert same.run is None
