"""Post-training quantisation: a float graph and samples in, an int8 graph out, and what it lost.

`prepare` simplifies the graph, `calibrate` chooses scales, `convert` writes integers; `rules` says what each op kind demands.
"""
