"""One vector from many: of tokens, of windows of a long text."""
