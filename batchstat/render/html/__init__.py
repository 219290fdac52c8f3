"""Reports as one self-contained HTML page."""
