"""From blocks of samples to a profile: counting by any executor, cache, shards, merging."""
