"""Memory and work of a network as papers count them, for comparison with a plan."""
