"""Open the storage that the address of a store names."""

from pathlib import Path

from millgate.errors import ConfigError, MissingExtra
from millgate.index.shared.storage import SharedFolder, SharedStorage

_HINT = "write segments=/a/folder or segments=s3://bucket/prefix; keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def open_storage(place: str, name: str) -> SharedStorage:
    """The part `name` of the storage at a place: a folder, or `s3://bucket/prefix`."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return SharedFolder(Path(place).expanduser() / name)
    if scheme != "s3" or "@" in rest or not rest.partition("/")[0]:
        raise ConfigError("the segments of the store address are neither a folder nor a bucket", hint=_HINT)  # fmt: skip
    try:
        from millgate.index.shared.bucket import Bucket  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name, extra="s3") from error
    bucket, _, prefix = rest.partition("/")
    return Bucket(bucket, "/".join(filter(None, (*prefix.split("/"), name))))
