"""Result store, with directories that contain all data, and an index that is made from them."""
