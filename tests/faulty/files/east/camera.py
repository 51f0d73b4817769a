from scale import FACTOR


def camera():
    return FACTOR
