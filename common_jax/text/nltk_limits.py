"""The time limit of NLTK's regular expressions."""


def lift_time_limit() -> None:
    """Lets NLTK's expressions run as long as they need.

    NLTK (3.10.4) ends a match after five seconds by the clock, also on a busy machine or in a
    process that was suspended. A caller limits the length of a text by a stranger.
    """
    from nltk import redos

    redos.DEFAULT_TIMEOUT = None
