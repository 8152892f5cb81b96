"""The calls' bodies, validated."""
