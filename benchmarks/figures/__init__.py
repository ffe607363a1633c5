"""The figures, one file per subject; a file added here is found automatically."""
