"""From a corpus to blocks of tokenized documents."""
