"""Result store: directories with all data, and an index that can be rebuilt from them."""
