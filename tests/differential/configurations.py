"""Random configuration files, with the grammar in every spelling, some broken by one character.

A seed determines a file. Most keys accept the kind of value they get, so that most unbroken files
are valid and their digest shows how each value was parsed.
"""

import random

INCLUDED = {
    "inc.conf": "prof_port: 5 # c\nV = 7\n",
    "map.conf": "k: x\n'l' \"y\"",
    "broken.conf": "a: [1, 2",
    "nothing.conf": "",
}
"""Files that the generated files may include, by name."""

ENVIRONMENT = {"NUMBER": "5", "WORD": "abc", "UNENDED": "a b", "QUOTE": "'", "NOTHING": ""}
"""Environment variables that the generated files may refer to."""

_SEPARATORS = (
    ": ",
    " = ",
    " ",
    "\t",
    ":",
    "=",
    "\n",
    "\n\n",
    " \n: ",
    "\n=",
    ":\n",
    "= \n",
    " :: ",
)
_ENDS = (
    "\n",
    "\n",
    "\n",
    ";",
    ",",
    "; ",
    ", ",
    "\r\n",
    " # c\n",
    "// c\n",
    "\n\n",
    " ",
    "",
    " /\n",
)
_BLANKS = ("", "", "", " ", "\n", "\t", " # c\n", "\n// c\n", "\r\n", "\r", "\xa0", "\v", "/", "\0")
_BROKEN = " \t\n\r:=;,{}[]()'\"\\#/$.-+x19ék\0"

_INTEGERS = (
    "0",
    "1",
    "-1",
    "4222",
    "007",
    "1k",
    "64k",
    "-2k",
    "1kb",
    "2KiB",
    "3mi",
    "1m",
    "1g",
    "1T",
)
_ODD_NUMBERS = (
    *("1kbb", "1kib5", "1kii", "99e", "9223372036854775807", "9223372036854775808", "1..2", "1.5k"),
    *("-9223372036854775808", "-9223372036854775809", "1.", ".5", "-.5", "-", "-x", "1-2", "1m5"),
    *(
        "1.5.",
        "1.2.3x",
        "1x'",
        "1'",
        "1]",
        "1#",
        "1\\t",
        "5 s",
        "-5s",
        "1.0e5",
        "2026-01-02",
        "1e5",
    ),
    *("2026-01-02T15:04:05Z", "2026-13-02T15:04:05Z", "2026-01-02T15:04:0", "\u0661", "1k]", "[1]"),
)
_FLOATS = ("1.5", "0.0", "-0.0", "1.0", "12.50", "0.00001", "0.0000001", "59.999")
_BOOLEANS = ("true", "yes", "On", "false", "NO", "off")
_WORDS = (
    *(
        "a",
        "abc",
        "'a'",
        '"a b"',
        "''",
        '""',
        "'it\"s'",
        '"a\\tb"',
        '"\\x41"',
        "a\\x41",
        "x'",
        "5s",
    ),
    *(
        "127.0.0.1",
        "1.2.3.4:5",
        "a:b",
        "a=b",
        "a#b",
        "a//b",
        "(\n x\n)\n",
        "(x)",
        "é",
        '"é"',
        "1_0",
    ),
    *('"\\xc3\\xa9"', '"a\nb"', "'a\nb'", "$2a$11$x", "'$V'", "truex", "\\n", "<&>", '"\u2028"'),
    *('"\\q"', '"\\x4', "'a", '"', "a\\", "{", "}", "]", ")", "//", "#", ":"),
)
_VARIABLES = ("$V", "$NUMBER", "$WORD", "$NOWHERE", "$UNENDED", "$QUOTE", "$NOTHING", "$V'", "$V]")
_NAMES = ("k", "l", "'m'", '"n"', "K", ",k", "/k", "a'b", "a.b", "{k", "é")


class _Writer:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        """Return a whole file."""
        chance = self._random
        members = [self._member() for _ in range(chance.randint(1, 4))]
        found = self._blank() + "".join(members)
        if chance.random() < 0.2:
            found = "{" * chance.randint(1, 2) + found + "}" * chance.randint(0, 2) + self._blank()
        if chance.random() < 0.3:
            found = self._broken(found)
        return found

    def _broken(self, text: str) -> str:
        """Return the text with one character added, removed or replaced."""
        at = self._random.randrange(len(text) + 1)
        more: str = self._random.choice((*_BROKEN, ""))
        return text[:at] + more + text[at + self._random.randint(0, 1) :]

    def _member(self) -> str:
        chance = self._random
        if chance.random() < 0.08:
            place = chance.choice(("inc.conf", "'inc.conf'", '"inc.conf"', "broken.conf", "none"))
            return f"{chance.choice(('include', 'Include'))} {place}{self._end()}"
        key, value = chance.choice(self._members)(self)
        return self._pair(key, value)

    def _pair(self, key: str, value: str) -> str:
        chance = self._random
        separator = chance.choice(_SEPARATORS[:3] if chance.random() < 0.7 else _SEPARATORS)
        return self._blank() + key + separator + value + self._end()

    def _blank(self) -> str:
        return self._random.choice(_BLANKS) if self._random.random() < 0.12 else ""

    def _end(self) -> str:
        return self._random.choice(_ENDS[:3] if self._random.random() < 0.8 else _ENDS)

    # -- values

    def _word(self) -> str:
        if self._random.random() < 0.1:
            return self._random.choice(_VARIABLES)
        return self._random.choice(_WORDS[:16] if self._random.random() < 0.8 else _WORDS)

    def _integer(self) -> str:
        if self._random.random() < 0.1:
            return self._random.choice(_VARIABLES)
        return self._random.choice(_INTEGERS if self._random.random() < 0.75 else _ODD_NUMBERS)

    def _boolean(self) -> str:
        return self._random.choice((*_BOOLEANS, *_BOOLEANS, "$V", "truex", "'true'"))

    def _any(self) -> str:
        kinds = (self._word, self._integer, self._boolean, self._array, self._map)
        return self._random.choice(kinds)()

    def _array(self) -> str:
        chance = self._random
        items = [
            self._blank() + self._word() + chance.choice(("", " "))
            for _ in range(chance.randint(0, 3))
        ]
        between = [chance.choice((",", ",", ", ", "\n", " # c\n", ",\n", ";", " ")) for _ in items]
        if between and chance.random() < 0.6:
            between[-1] = chance.choice(("", " ", "\n"))
        joined = "".join(item + end for item, end in zip(items, between, strict=True))
        return f"[{self._blank()}{joined}]"

    def _map(self) -> str:
        return self._braces([self._pair(self._name(), self._word()) for _ in range(2)])

    def _braces(self, members: list[str]) -> str:
        if self._random.random() < 0.1:
            members.append(f"include map.conf{self._end()}")
        if self._random.random() < 0.05:
            members.append(f"{self._name()}:")
        return "{" + self._blank() + "".join(members) + self._blank() + "}"

    def _name(self) -> str:
        return self._random.choice(_NAMES[:5] if self._random.random() < 0.8 else _NAMES)

    # -- members of the file

    def _named(self) -> tuple[str, str]:
        return self._random.choice(("server_name", "'host'", "pid_file")), self._word()

    def _counted(self) -> tuple[str, str]:
        return self._random.choice(("port", '"prof_port"', "max_subs", "ping_max")), self._integer()

    def _switched(self) -> tuple[str, str]:
        return self._random.choice(("debug", "LOGTIME", "syslog")), self._boolean()

    def _tags(self) -> tuple[str, str]:
        return "server_tags", self._array()

    def _metadata(self) -> tuple[str, str]:
        return "server_metadata", self._map()

    def _timeout(self) -> tuple[str, str]:
        value = self._random.choice((*_FLOATS, "5", "61", "'2s'", "'61s'", "1m"))
        return "authorization", self._braces([self._pair("timeout", value)])

    def _people(self) -> tuple[str, str]:
        items = "".join(
            f"{self._word()}{self._random.choice((' ,', ', ', chr(10)))}" for _ in range(2)
        )
        return "authorization", self._braces([self._pair("users", f"[ {items} ]")])

    def _variable(self) -> tuple[str, str]:
        return "V", self._any()

    def _unknown(self) -> tuple[str, str]:
        return self._name(), self._any()

    _members = (
        *(_named, _counted, _switched, _tags, _metadata),
        *(_timeout, _people, _variable, _unknown),
    )


def configuration(seed: int) -> str:
    """Return the file of a seed."""
    return _Writer(seed).text()
