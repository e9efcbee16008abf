"""Reads external files and addresses, writes files atomically, and defines input errors."""
