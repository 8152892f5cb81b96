"""Paged-attention operations: one interface, a reference, and implementations chosen by name."""
