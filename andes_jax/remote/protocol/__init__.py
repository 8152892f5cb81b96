"""The messages and services of andes.proto; the modules here are generated from it."""
