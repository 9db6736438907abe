"""Network input from a camera's lines or a JPEG file, row by row: in Python, and in C that computes the same bytes."""
