"""Import of files that other programs or meters have written, as recordings."""
