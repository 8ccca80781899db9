"""The one exception for mistakes that a person can mend."""


class UserError(Exception):
    """A mistake in what a person typed or supplied: a key, a file, a line of data.

    The message is one line that names the place and says what would be right. `launch` prints it
    alone on standard error and exits with status 2; every other exception is a bug of ours and
    keeps its traceback.
    """
