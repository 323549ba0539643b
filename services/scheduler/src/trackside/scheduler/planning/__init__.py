"""Which task is next: the queue, the state of the cluster, a pass over it."""
