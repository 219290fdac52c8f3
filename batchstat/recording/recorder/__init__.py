"""Records the batches that a command trains on. It runs wherever the command runs, with batchstat
or without: on the standard library and what the command itself imports, in the grammar of Python
3.8. Nothing here imports batchstat.
"""
