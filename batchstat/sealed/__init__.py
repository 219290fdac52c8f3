"""Files that batchstat writes and reads again: read strictly, and compared with their digest."""
