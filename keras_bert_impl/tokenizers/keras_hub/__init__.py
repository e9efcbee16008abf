"""Files and objects of KerasHub's tokenizers."""
