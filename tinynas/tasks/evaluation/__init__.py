"""Evaluate classifiers: confidence intervals, baselines, rates of each class. In: labels and predictions. Out: figures."""
