"""`verify`: whether the rewritten script trains the same and, where it does not, which change is to blame."""
