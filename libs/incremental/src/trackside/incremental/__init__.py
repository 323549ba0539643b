"""Incremental learning in the processes of tasks: datasets that grow, manifests, models that are served."""
