"""RAM and MACs of a network by the counting rules of published papers, for comparison with a plan of this package."""
