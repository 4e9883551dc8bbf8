"""Annotations in COCO's JSON layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class COCO:
    def __init__(self, annotation_file: str) -> None:
        content: dict[str, Any] = json.loads(Path(annotation_file).read_text(encoding="utf-8"))
        self.anns: dict[int, Any] = {entry["id"]: entry for entry in content["annotations"]}
        self.imgs: dict[int, Any] = {entry["id"]: entry for entry in content["images"]}

    def loadImgs(self, ids: int | list[int]) -> list[Any]:  # noqa: N802 - the library's name
        return [self.imgs[image] for image in ([ids] if isinstance(ids, int) else ids)]
