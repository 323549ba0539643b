"""Why something happened: the chain of causes of an event, a trial, a task."""
