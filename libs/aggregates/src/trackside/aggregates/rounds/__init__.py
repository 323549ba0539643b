"""Incremental learning: jobs whose rounds train, evaluate and deploy a model while samples arrive."""
