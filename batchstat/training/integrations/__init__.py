"""A `BatchSampler` in other people's trainers, with one call each."""
