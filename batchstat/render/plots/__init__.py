"""Records as PNG pictures: file name to bytes."""
