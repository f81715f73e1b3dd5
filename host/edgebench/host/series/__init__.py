"""What a run looks like over time: the traces that pictures and trace files are made from."""
