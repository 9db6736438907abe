"""How fused stages run: row accesses, row schedules, rematerialised tensors, and the fused stages of other planners."""
