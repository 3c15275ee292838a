"""Measure bias in image classifiers, and check every metric against the true causal effect."""

__version__ = "0.1.0"
