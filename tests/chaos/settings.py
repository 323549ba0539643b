"""How large the long runs are; `make long` has the smallest ones."""

import os

RUNS = int(os.environ.get("TRACKSIDE_CHAOS_RUNS", "1"))
"""How often each long run is made, each time with a seed of its own."""
RANDOM_FAULTS = int(os.environ.get("TRACKSIDE_CHAOS_FAULTS", "40"))
"""How many random faults, about one a second, a search has."""
BUSY_LOOPS = int(os.environ.get("TRACKSIDE_CHAOS_LOOPS", "32"))
"""How many busy loops run beside a starved stack."""
STARVED_FAULTS = int(os.environ.get("TRACKSIDE_CHAOS_STARVED_FAULTS", "12"))
"""How many random faults a starved stack has: each takes it several times as long."""
SECURE = bool(os.environ.get("TRACKSIDE_CHAOS_SECURE"))
"""Whether stacks have users, TLS, rights and signatures."""
