"""The one exception that reaches the user: a line that says what failed, and a hint that says what to do."""


class RigError(Exception):
    """A failure with its remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
