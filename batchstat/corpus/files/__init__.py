"""Files of a corpus: found, divided into splits, opened, decompressed, and digested."""
