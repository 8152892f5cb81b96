"""Documents of many formats and encodings as plain text."""
