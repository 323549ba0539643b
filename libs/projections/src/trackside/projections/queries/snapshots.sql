SELECT state, fold FROM snapshots
