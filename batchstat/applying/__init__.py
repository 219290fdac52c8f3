"""Cuts the padding out of the batches of a running command, in the process that trains, with
batchstat or without: on the standard library and its torch, in the grammar of Python 3.8.
"""
