"""Classes and functions that scripts of Sedna register by a name: callbacks, and miners of their own."""

from collections.abc import Callable
from typing import Any


class ClassType:
    """What is registered."""

    GENERAL = "general"
    HEM = "hard_example_mining"
    CALLBACK = "post_process_callback"


class ClassFactory:
    """What was registered in this process."""

    _registered: dict[tuple[str, str], Any] = {}  # noqa: RUF012 - one for the process, as in Sedna

    @classmethod
    def register(cls, type_name: str = ClassType.GENERAL, alias: str | None = None) -> Callable[[Any], Any]:
        """Returns what registers a class or function, under an alias or its own name."""

        def registered(what: Any) -> Any:
            cls._registered[type_name, alias or what.__name__] = what
            return what

        return registered

    @classmethod
    def get_cls(cls, type_name: str, t_cls_name: Any = None) -> Any:
        """Returns what was registered under a name, or what is no name itself. Raises ValueError."""
        if not isinstance(t_cls_name, str):
            return t_cls_name
        if (type_name, t_cls_name) not in cls._registered:
            names = ", ".join(sorted(name for kind, name in cls._registered if kind == type_name)) or "none"
            raise ValueError(f"no {type_name} {t_cls_name!r} is registered; there are: {names}")
        return cls._registered[type_name, t_cls_name]

    @classmethod
    def is_exists(cls, type_name: str, cls_name: str) -> bool:
        """Returns whether something was registered under a name."""
        return (type_name, cls_name) in cls._registered
