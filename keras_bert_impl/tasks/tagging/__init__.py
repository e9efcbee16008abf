"""Labels of words: entities, parts of speech."""
