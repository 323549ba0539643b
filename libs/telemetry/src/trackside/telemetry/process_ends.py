"""How a process ended, in words."""

import signal


def how_ended(code: int) -> str:
    """Returns how a process ended, such as `was killed by SIGKILL`; the code is negative for a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
