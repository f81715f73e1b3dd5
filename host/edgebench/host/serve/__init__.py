"""A page over store and farm that changes as devices are measured; it asks no device anything."""
