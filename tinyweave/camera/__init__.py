"""What brings a network's input from a camera's lines or a JPEG file, row by row: in Python, and in C with the same bytes."""
