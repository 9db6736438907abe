"""The search for architectures. In: limits, data. Out: architectures that fit, as planner and counts see them."""
