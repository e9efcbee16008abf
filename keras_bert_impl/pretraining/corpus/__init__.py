"""Turns a corpus into blocks of tokenized documents."""
