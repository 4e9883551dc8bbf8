"""Arrays to pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image


def toimage(array: Any) -> Image.Image:
    """Scale an array to bytes and make a picture of it."""
    values = np.asarray(array, dtype=np.float64)
    span = float(values.max() - values.min()) or 1.0
    return Image.fromarray(((values - values.min()) / span * 255).astype(np.uint8))
