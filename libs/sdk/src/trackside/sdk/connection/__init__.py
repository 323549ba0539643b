"""A client's connection to the log: publishing, answers, records, signatures."""
