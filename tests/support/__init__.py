"""What the tests share: real agents, real command lines, and the rule for skipping."""
