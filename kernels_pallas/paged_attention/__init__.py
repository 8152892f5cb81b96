"""Attention of new tokens over keys and values kept in pages, and the writing of those pages."""
