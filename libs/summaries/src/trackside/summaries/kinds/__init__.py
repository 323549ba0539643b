"""The kinds of values that a step of a run can have: how each is stored, read, thinned and shown.

A kind is one module with a `SummaryKind`; `registry.KINDS` has them by name.
"""
