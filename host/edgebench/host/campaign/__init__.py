"""Campaigns: a matrix of runs over devices, which survives whatever kills its host."""
