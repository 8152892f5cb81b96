"""Jobs: many calls to a model whose results survive a kill, a full disk and a server that goes away."""
