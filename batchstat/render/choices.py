"""What the parameters of strategies and samplers mean, and the values that are names."""

from collections.abc import Mapping

PARAMETERS: Mapping[str, str] = {
    "boundaries": "Upper edges of the buckets, rising; a rule finds them where none are given.",
    "buckets": "How many buckets a rule finds edges for.",
    "rule": "How edges are found where none are given: one of the rules for bucket edges.",
    "exclusive": "Whether a bucket ends below its edge, as in tf.data, or at it.",
    "pad": "To which width a batch of a bucket is padded.",
    "leftovers": "What happens to the samples that a bucket has left at the end of a window.",
    "shuffle_batches": "Whether the batches of a window are shuffled, or come as they were cut.",
    "group": "How many batches' worth of samples is sorted together; 50 unless set, or fewer where "
    "that makes less than four groups of the epoch.",
    "buffer_size": "How many samples are in the buckets at a time.",
    "shuffle": "Whether random samples of a bucket are drawn, or those that have waited longest.",
    "thresholds": "Upper edges of the groups into which a step is split; a rule finds them where "
    "none are given.",
    "groups": "How many groups a rule finds thresholds for.",
    "required_batch_size_multiple": "A batch has fewer samples than this, or a multiple of it.",
    "method": "How samples are packed into rows.",
    "max_samples_per_row": "The most samples in a row.",
    "within_samples": "Whether attention knows where the samples of a row begin.",
    "even": "Whether the samples of a class that has too few are all repeated equally often, so "
    "that none is missed.",
    "count": "Samples of each class.",
    "weights": "Each class with its weight: its share of the samples is in proportion.",
    "length": "Samples per epoch; as many as the corpus has unless set.",
    "decay": "How fast the classes become balanced: the exponent of their ratio is decay^epoch.",
    "cap": "How many times as often as the smallest class another is visited at most.",
    "classes": "How many random classes a batch has.",
    "samples": "How many random samples of each of its classes a batch has.",
    "batches": "Batches per epoch; as many as the corpus has samples for unless set.",
    "replacement": "Whether an epoch may draw a sample again.",
}
"""What strategies and samplers take beside the settings."""

VALUES: Mapping[str, Mapping[str, str]] = {
    "pad": {"longest": "To its longest sample.", "edge": "To the edge of the bucket."},
    "leftovers": {
        "keep": "It becomes a short batch.",
        "merge": "It is batched with what the shorter buckets have left.",
        "drop": "It is left out of the epoch.",
    },
    "method": {
        "bfd": "Best fit decreasing: longest first, each into the fullest row that has room.",
        "ffd": "First fit decreasing: longest first, each into the first row that has room.",
        "first-fit": "In the order's sequence, each into the first row that has room.",
        "next-fit": "In the order's sequence, each into the last row or a new one.",
        "wrapped": "Laid end to end and cut every max_length: a sample may lie in two rows.",
    },
}
"""The values of parameters and settings that are names."""
