"""What is sent: spec files, functions that are tasks, references, batches, instructions."""
