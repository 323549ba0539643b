"""Settings of the login that dashboards read with, which the set-up and the embedded stack share."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

READER = "trackside_dashboards"
"""The role that dashboards log in as. Roles belong to the whole server: installations on one share it."""


class ReaderSettings(BaseSettings):
    """Whether the set-up creates the login of dashboards in Postgres."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    reader_password_file: str = Field(
        "",
        description="File with the password of the login `trackside_dashboards`, which can only read the "
        "views for dashboards: the set-up creates it, or changes its password. Empty: it does not.",
    )
