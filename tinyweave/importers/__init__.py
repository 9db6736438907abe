"""File -> Graph, nothing else: one module per format."""
