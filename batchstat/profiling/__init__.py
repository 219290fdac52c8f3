"""From blocks of samples to a profile: counting by threads, processes or Dask, cache, merging."""
