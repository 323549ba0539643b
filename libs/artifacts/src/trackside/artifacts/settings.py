"""Settings of the store, which the worker, the command line and the embedded stack share."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.artifacts.blobs.urls import check_store_url


def _copies(text: str) -> str:
    for url, *credential in (each.split() for each in text.split(",") if each.strip()):
        check_store_url(url)
        if len(credential) > 1:
            raise ValueError(f"expected a URL and the name of a credential, got {len(credential) + 1} words")
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
        "",
        description="Copies of the store, read where it lacks bytes: URLs, comma-separated, each followed by "
        "a space and the name of its credential if it has one.",
    )
    store_timeout_s: float = Field(
        60.0, gt=0, description="Seconds in which an object store must answer, or send more bytes."
    )
    credentials: str = Field(
        "", description="The file with the credentials of this host, readable by its owner only."
    )

    @property
    def copies(self) -> list[tuple[str, str]]:
        """The URL of each copy and the name of its credential, empty for none."""
        pairs = [each.split() for each in self.store_copies.split(",") if each.strip()]
        return [(url, credential[0] if credential else "") for url, *credential in pairs]
