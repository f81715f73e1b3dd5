"""Live web page of a store and its devices; it never contacts a device."""
