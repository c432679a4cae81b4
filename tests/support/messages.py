"""Messages of errors, some of which hold words of another library."""


def assert_told(found: str, message: str) -> None:
    """Check that a message is the expected one, in which … stands for any words."""
    start, dots, end = message.partition("…")
    assert (found.startswith(start) and found.endswith(end)) if dots else found == message
