"""Engines in another process or on another machine, by gRPC: one stream per front end, one message per step."""
