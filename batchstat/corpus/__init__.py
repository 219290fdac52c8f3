"""Sources of samples: files, formats and columns, read as blocks of Arrow text."""
