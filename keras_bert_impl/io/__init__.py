"""Reading external files and addresses, writing our own files, and input errors."""
