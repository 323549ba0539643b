"""Settings of the console, read from TRACKSIDE_CONSOLE_ variables."""

from pathlib import Path
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.telemetry.local_names import is_local


class ConsoleSettings(BaseSettings):
    """The settings of the console."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_CONSOLE_", frozen=True)

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that the pages are served on. Other users reach it if it is not of loopback: "
        "then `tokens_file` or `oidc_issuer` is needed.",
    )
    port: int = Field(8470, ge=0, le=65_535, description="Port of the pages; 0 picks one.")
    url: str = Field(
        "",
        description="Address under which users open the pages, if a proxy is in front: "
        "https://trackside.example.org. Other names in Host and Origin are refused.",
    )
    tokens_file: Path | None = Field(
        None,
        description="YAML file of users: a list of {name, role, sha256}, role viewer, operator or admin, "
        "sha256 the digest of the user's token in hexadecimal digits. Read again when it changes.",
    )
    session_key_file: Path | None = Field(
        None,
        description="File with the secret that signs sessions, at least 32 characters; without one, a new "
        "secret is made at each start and users log in again.",
    )
    session_hours: float = Field(12.0, gt=0, le=24 * 31, description="How long a login is valid, h.")
    oidc_issuer: str = Field("", description="Issuer of OpenID Connect whose users may log in.")
    oidc_client_id: str = Field("", description="Id of the console at the issuer.")
    oidc_client_secret_file: Path | None = Field(None, description="File with its secret there.")
    oidc_roles_claim: str = Field(
        "roles", min_length=1, description="Claim with the roles of a user: viewer, operator or admin."
    )
    oidc_default_role: str = Field(
        "", description="Role of users whose claim has none of the roles; empty: they may not log in."
    )
    connections: int = Field(
        4, ge=1, le=50, description="How many requests read Postgres at once; others wait."
    )
    viewers: int = Field(
        200, ge=1, le=10_000, description="How many pages may be open and get changes at once."
    )
    services: str = Field(
        "",
        description="Services whose /ready is asked, so that pages say when one is down: "
        "dispatcher=http://host:port, separated by commas.",
    )

    trace_url: str = Field(
        "",
        description="Address of a trace in Jaeger, Tempo or Grafana, with {trace_id} where its 32 digits "
        "are: https://jaeger.example.org/trace/{trace_id}. Empty: pages show the id only.",
    )

    prometheus_url: str = Field(
        "",
        description="Address of the Prometheus with the alerts of the installation, read every 15 s: "
        "http://127.0.0.1:9090. Empty: the home page shows which services do not answer only.",
    )

    @field_validator("prometheus_url")
    @classmethod
    def _prometheus(cls, url: str) -> str:
        found = urlsplit(url)
        if url and (found.scheme not in ("http", "https") or not found.netloc or found.query):
            raise ValueError("expected the address of a Prometheus, such as http://127.0.0.1:9090")
        return url.rstrip("/")

    @field_validator("trace_url")
    @classmethod
    def _trace(cls, url: str) -> str:
        if url and not (url.startswith(("http://", "https://")) and url.count("{trace_id}") == 1):
            raise ValueError(
                "expected http://... or https://... with {trace_id} once: http://127.0.0.1:16686/trace/{trace_id}"
            )
        return url

    @field_validator("oidc_default_role")
    @classmethod
    def _role(cls, role: str) -> str:
        if role not in ("", "viewer", "operator", "admin"):
            raise ValueError("expected viewer, operator, admin or nothing")
        return role

    @field_validator("services")
    @classmethod
    def _addresses(cls, services: str) -> str:
        for each in filter(None, services.split(",")):
            name, equals, url = each.partition("=")
            if not (name and equals and url.startswith(("http://", "https://"))):
                raise ValueError(f"{each!r} is not NAME=http://HOST:PORT")
        return services

    @model_validator(mode="after")
    def _has_users(self) -> "ConsoleSettings":
        if self.oidc_issuer and not (self.oidc_client_id and self.oidc_client_secret_file):
            raise ValueError(
                "TRACKSIDE_CONSOLE_OIDC_ISSUER needs TRACKSIDE_CONSOLE_OIDC_CLIENT_ID and "
                "TRACKSIDE_CONSOLE_OIDC_CLIENT_SECRET_FILE too"
            )
        if not is_local(self.host) and not self.has_login:
            raise ValueError(
                f"TRACKSIDE_CONSOLE_HOST={self.host} is reached from other machines, and then users must log "
                "in: set TRACKSIDE_CONSOLE_TOKENS_FILE or TRACKSIDE_CONSOLE_OIDC_ISSUER, or use 127.0.0.1"
            )
        return self

    def address_of_trace(self, trace_id: str) -> str:
        """Returns the address of a trace, empty where none is set."""
        return self.trace_url.replace("{trace_id}", quote(trace_id, safe=""))

    @property
    def has_login(self) -> bool:
        """Whether users must log in."""
        return self.tokens_file is not None or bool(self.oidc_issuer)

    @property
    def addresses_of_services(self) -> dict[str, str]:
        """The services that are asked whether they are ready, with their addresses."""
        pairs = (each.partition("=") for each in self.services.split(",") if each)
        return {name: url.rstrip("/") for name, _, url in pairs}
