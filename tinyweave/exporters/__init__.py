"""Graph -> file, nothing else: one module per format."""
