"""The summaries of a job: which files of a directory are indexed up to where, and what people say of it."""
