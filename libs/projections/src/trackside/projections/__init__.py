"""Read models in Postgres, rebuilt from the log."""
