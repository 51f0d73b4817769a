"""What a program of a valid text is made of: places, deployments, states, memory, files."""
