"""Pictures of cameras, and JPEG files, as the input of a network, row by row."""
