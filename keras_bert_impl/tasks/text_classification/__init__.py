"""Classes, several labels or numbers for a text or a pair of texts."""
