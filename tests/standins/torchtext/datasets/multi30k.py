"""Where the original would download from; scripts overwrite it."""

URL: dict[str, str] = {}
