"""One command per file: parse options, call the library, publish the result."""
