"""What a part of a program trains on, recorded in a block or as a callback of a trainer."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchstat.errors import BatchstatError, OptionError, arguments_named
from batchstat.findings import Finding
from batchstat.recording.launch import folder_of
from batchstat.recording.recorder.log import ranks
from batchstat.recording.recorder.patches import Patches
from batchstat.recording.recorder.recorder import Recorder, Stopped
from batchstat.recording.recorder.watching import record_here
from batchstat.trainers.preflight.current import training_of_observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.preflight import report_on
from batchstat.trainers.preflight.recorded import DEFAULT_FOLDER, Run, begin_run
from batchstat.trainers.preflight.report import Preflight

_CALLBACKS = {
    "transformers": "TrainerCallback",
    "lightning.pytorch.callbacks": "Callback",
    "pytorch_lightning.callbacks": "Callback",
}
"""The class of each trainer's callbacks, by its module. batchstat imports none of them."""


def live_recording(
    output: str | Path | None, dry_run: bool, steps: int | None, show: Callable[[Preflight], None]
) -> "LiveRecording":
    """Return what records, with the classes of the callbacks of all trainers that were imported."""
    bases = [
        getattr(sys.modules[module], name)
        for module, name in _CALLBACKS.items()
        if module in sys.modules
    ]
    kind = type("LiveRecording", (LiveRecording, *bases), {})
    made: LiveRecording = kind(output, dry_run, steps, show)
    return made


class LiveRecording:
    """Records this process inside a block, or a training that calls its `on_` methods."""

    def __init__(
        self,
        output: str | Path | None,
        dry_run: bool,
        steps: int | None,
        show: Callable[[Preflight], None],
    ) -> None:
        self._output, self._is_dry, self._steps, self._show = output, dry_run, steps, show
        self.run: Run | None = None
        self._recorder: Recorder | None = None  # stays when it is closed
        self._patches = Patches()  # what the recorder has replaced
        self._steps_before = 0  # in the epochs that have ended

    def __reduce__(self) -> tuple[Any, ...]:
        # As for a process that a trainer spawns.
        return live_recording, (self._output, self._is_dry, self._steps, self._show)

    @arguments_named()
    def __enter__(self) -> Run:
        """Begin to record. Raises as `record` says."""
        rank, world_size = ranks()
        if world_size > 1:
            from torch import distributed

            if not (distributed.is_available() and distributed.is_initialized()):
                raise OptionError(
                    "several ranks",
                    "begin to record after torch.distributed is initialized, or run the command "
                    "that starts them by batchstat run",
                )
        run_id = None
        if self._recorder is not None and self.run is not None:  # its earlier recording
            self._close(self._recorder)
            if file := self._recorder.log.path:
                Path(file).unlink(missing_ok=True)  # the first rank may have removed the folder
            run_id = self.run.run_id
        orders: Any = None
        # Only the first rank prepares the folder: others would take its files for another run.
        if rank == 0:
            try:
                folder = folder_of(self._output, DEFAULT_FOLDER, (), run_id)
                orders = begin_run(folder, (), self._is_dry, self._steps, no_weights=False)
            except BatchstatError as error:
                orders = error
        orders = _of_first_rank(orders)
        if isinstance(orders, BatchstatError):
            raise orders
        self._recorder, self._patches = record_here(orders)
        self._steps_before = 0
        path = DEFAULT_FOLDER if self._output is None else Path(self._output)
        self.run = Run(folder=path, run_id=orders.run_id)
        return self.run

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> bool:
        """End the recording and print the report, unless the block ended by an error of its own."""
        if self._recorder is None or self._recorder.is_closed or self.run is None:
            return False
        self._close(self._recorder)
        is_planned = isinstance(error, Stopped)  # the recorder has seen all that it is to record
        if error is not None and not is_planned:
            return False
        _of_first_rank(None)  # to wait until all ranks have written
        if ranks()[0] == 0:
            try:
                self._show(self.run.report)
            except Exception as problem:  # a warning: what was trained must not be lost
                warnings.warn(str(Finding("recording/no-report", _said(problem))), stacklevel=2)
        return is_planned

    def __getattr__(self, name: str) -> Any:
        # A trainer asks for an event of its class of callbacks.
        raise AttributeError(f"{name}: import the trainer's library before batchstat.record()")

    def _close(self, recorder: Recorder) -> None:
        recorder.close()
        self._patches.restore()

    # --- events of both trainers -----------------------------------------------------------------
    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Begin to record, as a callback. Raises as `record` says."""
        if self._is_dry or self._steps is not None:
            raise OptionError(
                "dry_run and steps end a block, which a callback cannot",
                "use `with batchstat.record(…):` around the training",
            )
        self.__enter__()

    # Lightning's on_train_start comes after it has made the iterator of the first epoch.
    on_fit_start = on_train_begin

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the recording and print the report."""
        self.__exit__(None, None, None)

    def on_exception(self, _trainer: Any, _module: Any, error: BaseException) -> None:
        """End the recording of a training of Lightning that fails."""
        self.__exit__(type(error), error, None)

    def on_epoch_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        """Print and log the numbers of an epoch of transformers."""
        numbers = self._end_epoch()
        trainer = self._recorder and self._recorder.trainer and self._recorder.trainer()
        if not numbers or trainer is None:
            return
        # `log` unsets it, although the Trainer's own numbers may be due at the end of the epoch.
        is_due = control.should_log
        # Not that of a subclass: TRL's SFTTrainer forgets what it gathered for its next log.
        sys.modules["transformers.trainer"].Trainer.log(trainer, numbers)
        control.should_log = is_due

    def on_train_epoch_end(self, _trainer: Any, module: Any) -> None:
        """Print and log the numbers of an epoch of Lightning."""
        # The same on all ranks; but without sync_dist Lightning warns that they may not be, and
        # without batch_size it looks for one in the batch and may find none.
        module.log_dict(self._end_epoch(), sync_dist=True, batch_size=1)

    def _end_epoch(self) -> dict[str, float]:
        """Return what to log of the ended epoch, the same on all ranks, which wait here."""
        recorder = self._recorder
        if recorder is None or recorder.is_closed:
            return {}
        recorder.safely(recorder.queue.write_arrived, wait=True)
        _of_first_rank(None)  # to wait until all ranks have written
        numbers: dict[str, float] = {}
        if ranks()[0] == 0:
            try:
                line, numbers = self._numbers(self._steps_before, recorder.steps)
            except Exception as error:  # training must go on
                line = f"no numbers of this epoch: {_said(error)}"
            tqdm = sys.modules.get("tqdm")  # draws a progress bar again below what it writes
            (print if tqdm is None else tqdm.tqdm.write)(f"batchstat: {line}", file=sys.stderr)
        self._steps_before = recorder.steps
        return dict(_of_first_rank(numbers))

    def _numbers(self, first: int, end: int) -> tuple[str, dict[str, float]]:
        """Return a line on the steps from `first` to before `end`, and their numbers to log."""
        assert self.run is not None
        recording = self.run.recording
        ranks_of_epoch = [
            replace(
                rank,
                batches=[batch for batch in rank.batches if first <= batch.step < end],
                step_ends=(),  # without times, or everything would be simulated by them as well
            )
            for rank in recording.ranks
        ]
        epoch = replace(recording, ranks=[rank for rank in ranks_of_epoch if rank.batches])
        report = report_on(training_of_observed(observe_recording(epoch), {}))
        padding_ratio, best = report.simulation.row.counts.padding_ratio, report.changes.advised
        line, numbers = f"{padding_ratio:.1%} padding", {"batchstat/padding_ratio": padding_ratio}
        if best is not None:
            line += f"; {best.row.name} would be an estimated {best.speed_up:.2f}x faster"
            numbers["batchstat/speed_up"] = best.speed_up
        return line, numbers


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BatchstatError) else repr(error)


def _of_first_rank(value: Any) -> Any:
    """Return the value of the first rank on every rank. The ranks wait for each other here."""
    _, world_size = ranks()
    shared = [value]  # on other ranks, replaced by the first rank's
    if world_size > 1:  # else there may be no torch.distributed
        from torch import distributed

        distributed.broadcast_object_list(shared)
        distributed.barrier()
    return shared[0]
