"""Definitions of pipelines: their steps, references, expressions and graph. Pure; two aggregates use them."""
