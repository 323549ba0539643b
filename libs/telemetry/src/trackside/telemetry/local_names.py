"""Which names a client of this machine uses for it. Pure."""

import ipaddress
import re

_PORT = re.compile(r":\d{0,5}$", re.ASCII)


def is_local(host: str) -> bool:
    """Returns whether a server that listens on a host is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_local_name(host: str) -> bool:
    """Returns whether a Host header is empty, an IP address or localhost, each with or without a port.

    A name of the web can't be one of these, wherever it leads.
    """
    name = _PORT.sub("", host).lower().rstrip(".")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if not name or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
