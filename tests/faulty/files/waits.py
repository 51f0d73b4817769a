import time


def source():
    time.sleep(0.02)
    return 1.0


def sink(x):
    pass
