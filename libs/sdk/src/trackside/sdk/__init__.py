"""What users import: Client, Task, trial."""
