"""Where a task goes: placement, preemption, and why it can go nowhere."""
