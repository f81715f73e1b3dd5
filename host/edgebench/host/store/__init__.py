"""The result store: directories that hold everything, and an index that can be rebuilt."""
