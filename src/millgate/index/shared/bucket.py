"""Bucket: files that gateways share in an S3-compatible service, through obstore.

The service, the region and the credentials are those of the environment, by the names that all S3 tools read:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL. On a machine of the cloud its role is asked.
Errors are worded here: those of the service may quote a key.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from millgate.errors import StoreError
from millgate.index.shared.storage import StoredFile

_CONNECT = timedelta(seconds=5)
_SILENCE = timedelta(seconds=30)  # without a byte, after which a request has failed
_WHOLE = timedelta(hours=1)  # that the largest file may take
_RETRIES = 2
_RETRY = timedelta(seconds=20)
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")  # what S3 calls the error
_REFUSED = ("401", "403")
_process = 0  # in which obstore started the threads that carry its requests


class Bucket:
    """A prefix in a bucket."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._name = f"s3://{bucket}/{prefix}"
        self._bucket = bucket
        with self._translate_errors("opened"):
            self._store = S3Store(
                bucket,
                prefix=prefix,
                client_options={
                    "allow_http": True,  # if the endpoint says so; it is https if none is set
                    "connect_timeout": _CONNECT,
                    "read_timeout": _SILENCE,
                    "timeout": _WHOLE,
                },
                retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY},
            )

    def __str__(self) -> str:
        return self._name

    def list_files(self, folder: str) -> list[StoredFile]:
        """Every object below a folder."""
        with self._request("listed"):
            found = self._store.list(f"{folder}/").collect()
        return [StoredFile(one["path"], one["last_modified"].timestamp()) for one in found]

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a file."""
        with target.open("wb") as write, self._request(f"read at {key}"):
            for block in self._store.get(key).stream():
                write.write(block)
            write.flush()
            os.fsync(write.fileno())

    def upload(self, source: Path, key: str) -> None:
        """Copy a file to an object, in parts if it is large; it is there when all of it is."""
        with source.open("rb") as file, self._request(f"written at {key}"):
            self._store.put(key, file)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        with self._request("deleted from"):
            for key in keys:
                self._store.delete(key)

    @contextmanager
    def _request(self, what: str) -> Iterator[None]:
        global _process  # noqa: PLW0603  (obstore has one set of threads a process)
        _process = _process or os.getpid()
        if _process != os.getpid():
            raise StoreError(
                f"{self._name} is not used in a forked process", hint="start processes with spawn"
            )
        with self._translate_errors(what):
            yield

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            raise self._describe(error, what) from None

    def _describe(self, error: BaseError | FileNotFoundError, what: str) -> StoreError:
        """The error in our words: the service's own may quote the key that it was sent."""
        status, code = (found.search(str(error)) for found in (_STATUS, _CODE))
        answer = f": {code[1]}" if code else f" with status {status[1]}" if status else ""
        refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        if refused or (status and status[1] in _REFUSED):
            return StoreError(
                f"{self._name} cannot be {what}: the service refuses these credentials{answer}",
                hint="check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do with the bucket",
            )
        if code and code[1] == "NoSuchBucket":
            hint = "make it, or correct segments in the address of the store"
            return StoreError(f"there is no bucket {self._bucket}", hint=hint)
        if isinstance(error, NotFoundError | FileNotFoundError):
            return StoreError(f"{self._name} cannot be {what}: it is gone")
        reason = f"the service answers{answer}" if answer else "the service does not answer"
        return StoreError(
            f"{self._name} cannot be {what}: {reason}",
            hint="check AWS_ENDPOINT_URL, AWS_REGION and the network",
        )
