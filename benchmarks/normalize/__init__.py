"""What images that come as bytes gain."""
