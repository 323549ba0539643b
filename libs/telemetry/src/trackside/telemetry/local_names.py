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


def is_name(host: str) -> bool:
    """Returns whether a Host header names a host: it is not empty, and not the address of no host, 0.0.0.0.

    A browser connects to this machine under that address, too, past its rules for private networks.
    """
    name = _without_port(host)
    found = _address(name)
    return bool(name) and not (found is not None and found.is_unspecified)


def is_local_name(host: str) -> bool:
    """Returns whether a Host header is an IP address of a host or localhost, each with or without a port.

    A name of the web can't be one of these, wherever it leads.
    """
    name = _without_port(host)
    return is_name(host) and (
        name == "localhost" or name.endswith(".localhost") or _address(name) is not None
    )


def _without_port(host: str) -> str:
    name = _PORT.sub("", host).lower().rstrip(".")
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Returns the IP address that a name is, one of IPv4 written as one of IPv6 too; None if it is none."""
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped
