"""Check error messages, which may quote another library."""


def assert_message(found: str, message: str) -> None:
    """Check that a message is the expected one; … in the expected message matches any text."""
    start, dots, end = message.partition("…")
    assert (found.startswith(start) and found.endswith(end)) if dots else found == message
