"""Checks of an installation: packages, devices, caches, environment and hubs."""
