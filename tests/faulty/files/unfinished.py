def grey(frame):
    return (frame
