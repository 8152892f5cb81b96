"""Where the time between a token and its reader goes: the intervals of each chunk, their bounds and likely causes."""
