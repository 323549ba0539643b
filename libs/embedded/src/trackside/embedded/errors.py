"""What can go wrong when a stack is started; the messages say what to do."""


class StackError(Exception):
    """The stack can't be started, found or stopped; the message has the reason, the folder and what to do."""


class StackRunning(StackError):
    """Another stack already runs on the same folder."""


class StackMissing(StackError):
    """No stack runs on the folder."""


class StackOfAnotherUser(StackError):
    """Another user started the stack of the folder."""
