"""Errors of the store: each has a code to act on, and says what was wrong, where, and what to do."""

from typing import ClassVar


class ArtifactError(Exception):
    """Something is wrong with an artifact, its store or its credential; `code` says what."""

    code: ClassVar[str] = "artifact_error"


class ArtifactMissing(ArtifactError):
    """No copy of the store has these bytes."""

    code = "artifact_missing"


class ArtifactDamaged(ArtifactError):
    """The bytes that the store has under a digest have another digest or size."""

    code = "artifact_damaged"


class ArtifactChanged(ArtifactError):
    """A file changed while it was saved, or is not the one that was handed over."""

    code = "artifact_changed"


class BadArtifact(ArtifactError):
    """A file or a manifest can't be an artifact, or an artifact can't be put where it was asked for."""

    code = "bad_artifact"


class PathOutsideStore(ArtifactError):
    """A path leads out of its folder: a link, `..`, or an absolute path."""

    code = "path_outside_store"


class StoreUnreachable(ArtifactError):
    """The store didn't answer, or refused: what it has is not known. Trying again later may help."""

    code = "store_unreachable"


class AccessRefused(StoreUnreachable):
    """The store answered, and doesn't let this credential do that."""


class BucketMissing(StoreUnreachable):
    """The object store has no bucket of this name."""


class StoreFull(ArtifactError):
    """The disk or the quota of the store is used up."""

    code = "store_full"


class StoreMissing(ArtifactError):
    """The installation has no store, or its URL is none."""

    code = "store_missing"


class CredentialMissing(ArtifactError):
    """This host doesn't have a credential, or its file of credentials can't be used."""

    code = "credential_missing"


class CacheUnusable(ArtifactError):
    """The cache of artifacts of a host has no room, or can't be written."""

    code = "cache_unusable"


class UnsafeFormat(ArtifactError):
    """A file would execute code when it is loaded: it can't be a model."""

    code = "unsafe_format"
