"""batchstat profile: count the tokens of a corpus."""

from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, ConfigFile, Corpus, Ignored, Output, Partial
from batchstat.errors import OptionError
from batchstat.parameters import described


@takes(Corpus, *READING, Partial, Output, Ignored, ConfigFile)
@described(
    """Count the tokens of a corpus: lengths, tokens lost to a max_length, classes.

    Writes profile.json, lengths.parquet and plots to the results folder, where compare finds them.

    Examples:
        # One sample per line
        batchstat profile corpus.txt

        # A column of a CSV file, with the class of each sample
        batchstat profile reviews.csv --text-column review --label-column label

        # Conversations, as the tokenizer's chat template renders them
        batchstat profile chat.jsonl --messages-column messages --tokenizer ./qwen

        # Files in S3, counted by a Dask cluster
        batchstat profile 's3://bucket/*.zst' --executor dask --scheduler tcp://a:8786
    """
)
def command(options: Options) -> None:
    from batchstat.cli import profiles
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.results import publish_profile

    output = options.read(Output)
    inputs = read_inputs(options)
    if not inputs.corpus:
        raise OptionError("no corpus", "name at least one file, or - for standard input")
    profiles.check_outputs(output)
    profile, _ = profiles.count(inputs, folder=output.output)
    publish_profile(inputs, profile, output)
