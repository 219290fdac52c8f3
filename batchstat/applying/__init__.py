"""Cuts the padding out of the batches of a running command.

It runs in the process that trains, with batchstat or without: on the standard library and the
command's own torch, in the grammar of Python 3.8. Nothing here imports batchstat.
"""
