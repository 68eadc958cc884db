"""Starts and stops the pump of the mill."""

LIMIT = 3


def level(channel):
    """Reads the level of a channel."""
    return channel.read()


class Pump:
    def start(self):
        self.runs = True
