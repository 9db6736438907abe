"""Ops that loop over time: LSTM and SVDF with state, as TFLite has them, and layers that start from an initial state."""
