"""Code that all pages share."""
