"""Names that settings take, each with what it means."""

from collections.abc import Mapping

OVERFLOWS: Mapping[str, str] = {
    "truncate": "A longer sample is truncated to max_length.",
    "drop": "A longer sample is dropped.",
    "split": "A longer sample becomes several of at most max_length.",
}
ORDERS: Mapping[str, str] = {
    "file": "The sequence of the corpus.",
    "shuffled": "A random sequence, another in each epoch.",
    "torch": "The random sequence of torch's RandomSampler, seeded with seed + epoch as accelerate "
    "and DistributedSampler do.",
    "blocks": "Blocks of consecutive samples in random sequence, then shuffled inside.",
}
SHUFFLED = ("shuffled", "torch")  # orders that are random permutations of all samples

DISTRIBUTIONS: Mapping[str, str] = {
    "batches": "The batches of one plan in turn.",
    "samples": "Samples in turn, as torch's DistributedSampler; each rank batches its own.",
    "independent": "As samples, but each rank has a seed of its own: a common mistake, since "
    "ranks then share some samples and none sees others.",
    "chunks": "Consecutive chunks of the corpus; each rank batches its own.",
    "balanced": "Batches of similar cost in the same step.",
}
FROM_ONE_PLAN = ("batches", "balanced")  # with the others, each rank has a plan of its own

REMAINDERS: Mapping[str, str] = {
    "repeat": "Missing batches are filled up from the start.",
    "drop": "Excess batches are dropped.",
    "uneven": "Some ranks run a step more than others.",
    "dummy": "Ranks that have no batch left run an empty step.",
    "spread": "The rows of the last batches are spread over all ranks.",
    "fill": "Rows from the start fill up the last batch, and batches for the ranks without one: "
    "accelerate's even_batches. With drop_last, what does not divide evenly is dropped. Where "
    "batches have no fixed number of rows, as repeat.",
}
WAITS: Mapping[str, str] = {
    "step": "At the end of each step: DDP, as the Trainer and accelerate use it, and ZeRO-1.",
    "micro-batch": "In each batch: FSDP, ZeRO-2 and ZeRO-3, pipelines, DDP without no_sync.",
}
"""Where ranks wait for each other."""

COSTS: Mapping[str, str] = {
    "linear": "Of a row in proportion to its width: padding.",
    "quadratic": "Of a row in proportion to the square of its width: attention.",
    "model": "Of a row by the shape of the transformer that --model names.",
    "time": "Time of batches and new shapes, by the device that --calibration names.",
}
"""What bucket edges can minimise."""

NUMBERS: Mapping[str, str] = {
    "length": "All tokens of a sample, with padding.",
    "trained": "Those of its tokens that carry loss.",
}
"""What ranks are balanced by."""

LOSSES: Mapping[str, str] = {
    "mean-per-batch": "The mean over the trained tokens of each batch, divided by "
    "gradient_accumulation_steps and averaged over the ranks: a plain loop with torch's "
    "DistributedDataParallel, accelerate or Lightning.",
    "num-items-in-batch": "The sum over trained tokens, divided by their number in the whole step: "
    "transformers' Trainer for models that take num_items_in_batch, with "
    "average_tokens_across_devices (the default); checked against 5.24.",
    "num-items-per-rank": "The sum over trained tokens, divided by the number that the rank has of "
    "them in the step and averaged over the ranks: the same with "
    "average_tokens_across_devices=False; checked against 5.24.",
    "token-sum": "The sum over trained tokens, divided once by their number in the whole step.",
    "sequence-mean": "The mean over the trained tokens of each row, then over the rows of each "
    "batch, divided by gradient_accumulation_steps and averaged over the ranks.",
    "trl": "As num-items-in-batch, but 0 for a step without a trained token: TRL's SFTTrainer; "
    "checked against 1.16.",
    "axolotl": "As mean-per-batch, but divided by the number of batches that the step has: axolotl "
    "for models whose backbone does not name num_items_in_batch in its forward; checked against "
    "0.19. Also transformers' Trainer for models that do not take it; checked against 5.24.",
    "unknown": "A loss of the user's own: nothing is said of weights.",
}
"""How the losses of tokens become that of a step."""
