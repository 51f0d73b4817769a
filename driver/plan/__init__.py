"""From a valid text to the parts of its program: places, deployments, states, memory, files."""
