"""What a page or a command shows: experiments, runs, trials, their lineage."""
