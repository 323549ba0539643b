"""Settings of watched directories, read from TRACKSIDE_SUMMARY_ variables."""

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SummaryDirectoriesSettings(BaseSettings):
    """The directories that a summary-indexer watches."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_SUMMARY_", frozen=True)

    directories: str = Field(
        "",
        description="Directories whose event files are read into the log as they grow, separated by colons. "
        "One summary-indexer is enough for a directory.",
    )
    look_s: float = Field(
        30.0,
        ge=0.1,
        le=86_400,
        description="Time between two searches of these directories, s, for changes that their file system "
        "does not report.",
    )
    signing_key: str = Field(
        "",
        description="File of the private key that signs the commands that begin jobs; needed where the "
        "dispatcher requires signatures.",
    )

    @property
    def paths(self) -> list[Path]:
        """The directories."""
        return [Path(each) for each in self.directories.split(os.pathsep) if each]
