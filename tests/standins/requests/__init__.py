"""Stand-in for requests: `get` serves a URL's last path component from the folder STANDIN_DOWNLOADS."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

__version__ = "0.0+stand-in"


class Response:
    def __init__(self, path: Path) -> None:
        self.status_code = 200
        self.raw = path.open("rb")

    @property
    def content(self) -> bytes:
        return self.raw.read()

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.raw.close()


def get(url: str, **_: Any) -> Response:
    return Response(Path(os.environ["STANDIN_DOWNLOADS"]) / url.rsplit("/", 1)[-1])
