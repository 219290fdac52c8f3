"""Where samples come from: files, formats and columns, as blocks of Arrow text."""
