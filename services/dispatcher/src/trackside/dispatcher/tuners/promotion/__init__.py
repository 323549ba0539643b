"""Tuners that promote: a trial may continue from the checkpoint of another one, with more steps."""
