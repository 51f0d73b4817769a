"""Response times of mapped systems: bounds, and the simulation that referees them."""
