"""Reads recorded logs: past states, causes, export and import, reruns and forks, rebuilds of read models."""
