"""Peak RAM of an architecture without its graph, for searches that evaluate many networks."""
