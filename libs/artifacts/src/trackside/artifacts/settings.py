"""Settings of the store, which the worker, the command line and the embedded stack share."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.artifacts.urls import check_store_url


def _copies(text: str) -> str:
    for each in text.split(","):
        if each.strip():
            check_store_url(each.strip())
    return text


class StoreSettings(BaseSettings):
    """Where the bytes of artifacts are."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_", frozen=True)

    store: Annotated[str, AfterValidator(check_store_url)] = Field(
        "",
        description="The store of all artifacts: an absolute path, `file:///path`, `s3://bucket/prefix`, or "
        "the URL of another protocol of fsspec. Empty: nothing can be saved.",
    )
    store_credential: str = Field(
        "", description="The name of the store's credential; empty: the environment has what it needs."
    )
    store_copies: Annotated[str, AfterValidator(_copies)] = Field(
        "", description="URLs of copies of the store, comma-separated, read where the store lacks bytes."
    )
    store_timeout_s: float = Field(
        60.0, gt=0, description="Seconds in which an object store must answer, or send more bytes."
    )
    credentials: str = Field(
        "", description="The file with the credentials of this host, readable by its owner only."
    )

    @property
    def copy_urls(self) -> list[str]:
        """The URLs of all copies."""
        return [each.strip() for each in self.store_copies.split(",") if each.strip()]
