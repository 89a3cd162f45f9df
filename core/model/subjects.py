"""Rules about subjects in configurations, as text: validity, overlap, containment.

Messages on the hot path use `core.subjects`, on bytes; these serve validation, where the texts of
errors and the odd corners (a token such as `a*` is literal) must be the reference's.
"""

_SPACE = " \t\n\r\f"


def is_valid_subject(subject: str) -> bool:
    """No empty token, no white space, `>` only at the end."""
    if not subject:
        return False
    tokens = subject.split(".")
    for index, token in enumerate(tokens):
        if not token or any(char in _SPACE for char in token):
            return False
        if token == ">" and index != len(tokens) - 1:
            return False
    return True


def is_literal(subject: str) -> bool:
    """Whether no token is a wildcard."""
    return not any(token in ("*", ">") for token in subject.split("."))


def is_valid_publish_subject(subject: str) -> bool:
    """Valid and literal."""
    return is_valid_subject(subject) and is_literal(subject)


def is_subset(subject: str, of: str) -> bool:
    """Whether everything `subject` matches is matched by `of`."""
    tokens, wider = subject.split("."), of.split(".")
    for index, want in enumerate(wider):
        if index >= len(tokens) or not want:
            return False
        if want == ">":
            return True
        have = tokens[index]
        if have in ("", ">") or (have == "*" and want != "*"):
            return False
        if want[0] != "*" and have != want:
            return False
    return len(tokens) == len(wider)


def collide(one: str, other: str) -> bool:
    """Whether some subject is matched by both."""
    if one == other:
        return True
    if is_literal(one):
        return not is_literal(other) and is_subset(one, other)
    if is_literal(other):
        return is_subset(other, one)
    left, right = one.split("."), other.split(".")
    if len(left) != len(right) and ">" not in min(left, right, key=len):
        return False
    return all(_can_match(a, b) for a, b in zip(left, right, strict=False))


def _can_match(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one[0] in "*>" or other[0] in "*>" or one == other
