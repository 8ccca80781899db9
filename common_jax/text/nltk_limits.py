"""The time limit of NLTK's regular expressions."""


def lift_time_limit() -> None:
    """Lets NLTK's expressions run as long as they need.

    NLTK (3.10.4) ends a match after five seconds by the clock, also on a busy machine or in a
    process that was suspended. Its own expressions take linear time, and callers limit the length
    of the texts of strangers.
    """
    from nltk import redos

    redos.DEFAULT_TIMEOUT = None
