"""The real scheduler over a modelled device under a virtual clock: what a policy does to readers, in seconds."""
