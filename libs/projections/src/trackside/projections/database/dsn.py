"""What a DSN of Postgres says without its password, and what is said of one that is malformed."""

from urllib.parse import parse_qs, urlsplit

BAD_DSN = (
    "TRACKSIDE_POSTGRES_DSN is malformed: expected postgresql://user:password@host:port/database; write the "
    "characters / ? # @ : % of a user or a password as %2F, %3F, %23, %40, %3A, %25"
)


def address_of(dsn: str) -> str:
    """Returns host, port and database of a DSN, without the user and the password."""
    try:
        found = urlsplit(dsn)
        if not found.hostname and (service := parse_qs(found.query).get("service")):
            return f"service {service[0]} of the service file"
        return f"{found.hostname or 'localhost'}:{found.port or 5432}/{found.path.lstrip('/')}"
    except ValueError:
        return "the address in TRACKSIDE_POSTGRES_DSN"
