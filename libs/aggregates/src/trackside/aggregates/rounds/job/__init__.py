"""What an incremental job is: its specification, triggers, deployments and splits."""
