"""Files of other meters and other programs, as recordings."""
