"""Summaries: curves, images, histograms and the like, in event files and in the index."""
