"""The public contract of a bundle: schema, keys, certificate, writing, reading, cards."""
