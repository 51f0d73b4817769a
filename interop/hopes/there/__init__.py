"""What runs inside of projects of HOPES: Python 3.8, the runtime, nothing else of flowc."""
