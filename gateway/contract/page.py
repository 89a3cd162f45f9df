"""Generation of the API reference as HTML pages, without scripts or external files."""

from html import escape
from typing import Any

from gateway.contract.kinds import KINDS, type_of
from gateway.contract.remedies import cause_of, remedy_for

Document = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #2563eb; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: var(--soft); border-radius: 6px; overflow-x: auto; padding: .7rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
details > *:not(summary) { margin-left: 1rem; margin-right: 1rem; }
summary { cursor: pointer; padding: .4rem .7rem; }
summary b { display: inline-block; font-family: ui-monospace, monospace; width: 4.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: left; }
td { vertical-align: top; }
"""


def reference(document: Document) -> str:
    """Generate the HTML page of all operations and schemas from the OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = _operation(document, path, method.upper(), operation)
            groups.setdefault(operation["tags"][0], []).append(shown)
    parts = [f"<h2 id='{tag}'>{escape(tag)}</h2>{''.join(rows)}" for tag, rows in groups.items()]
    schemas = document["components"]["schemas"]
    parts.append("<h2 id='schemas'>schemas</h2>")
    parts += [_schema(name, schema) for name, schema in schemas.items()]
    tags = (*groups, "schemas")
    index = " · ".join(f"<a href='#{tag}'>{escape(tag)}</a>" for tag in tags)
    info = document["info"]
    links = "<a href='/openapi.json'>openapi.json</a> · "
    links += "<a href='/asyncapi.json'>asyncapi.json</a> · <a href='/docs/problems'>problems</a>"
    head = f"<p>{escape(info['summary'])} Version {escape(info['version'])}. {links}</p>"
    return _page(f"{info['title']}: HTTP reference", f"{head}<p>{index}</p>{''.join(parts)}")


def problems() -> str:
    """Generate the HTML page that lists every kind of problem."""
    rows = "".join(
        f"<tr><td><a href='/docs/problems/{escape(name)}'>{escape(name)}</a></td>"
        f"<td>{kind.status}</td><td>{escape(kind.description)}</td></tr>"
        for name, kind in sorted(KINDS.items())
    )
    table = f"<table><tr><th>kind</th><th>status</th><th></th></tr>{rows}</table>"
    return _page("jetgate: problems", table)


def problem(name: str, document: Document) -> str | None:
    """Generate the HTML page about one kind of problem; None if the kind is unknown.

    `document` is the OpenAPI document.
    """
    kind = KINDS.get(name)
    if kind is None:
        return None
    givers = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if name in operation["x-problems"]
    ]
    shown = [f"<p><code>{escape(type_of(name))}</code>, status {kind.status}</p>"]
    shown.append(f"<h2>What happened</h2><p>{_marked(cause_of(kind))}</p>")
    shown.append(f"<h2>What to do</h2><p>{_marked(remedy_for(name, kind))}</p>")
    if kind.err_code:
        shown.append(f"<p>JetStream's <code>err_code</code> {kind.err_code}.</p>")
    if givers:
        listed = ", ".join(f"<a href='/docs#{each}'>{each}</a>" for each in sorted(givers))
        shown.append(f"<p>Given by {listed}.</p>")
    shown.append("<p><a href='/docs/problems'>All problems</a></p>")
    return _page(f"jetgate: {name}", "".join(shown))


def _marked(text: str) -> str:
    """Escape a sentence for HTML, and convert text between backticks to `<code>`."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _page(title: str, body: str) -> str:
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>"
    head += "<meta name='viewport' content='width=device-width'>"
    html = f"<html lang='en'><head>{head}</head><body><h1>{escape(title)}</h1>{body}</body></html>"
    return f"<!doctype html>{html}"


def _operation(document: Document, path: str, method: str, operation: Document) -> str:
    name = operation["operationId"]
    shown = [f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""]
    parameters = [_found(document, each) for each in operation["parameters"]]
    if parameters:
        rows = "".join(
            f"<tr><td><code>{escape(each['name'])}</code></td><td>{each['in']}</td>"
            f"<td>{escape(each['description'])}</td></tr>"
            for each in parameters
        )
        shown.append(f"<table>{rows}</table>")
    if "requestBody" in operation:
        shown.append(f"<p>Takes {_content(operation['requestBody']['content'])}</p>")
    for status, answer in operation["responses"].items():
        if "content" in answer:
            shown.append(f"<p>{status}: {_content(answer['content'])}</p>")
        elif "$ref" not in answer:
            shown.append(f"<p>{status}: {escape(answer['description'])}</p>")
    listed = ", ".join(
        f"<a href='/docs/problems/{each}'>{each}</a>" for each in operation["x-problems"]
    )
    shown.append(f"<p>Problems: {listed}</p>" if listed else "")
    summary = f"<b>{method}</b> <code>{escape(path)}</code> {escape(operation['summary'])}"
    return f"<details id='{name}'><summary>{summary}</summary>{''.join(shown)}</details>"


def _content(content: Document) -> str:
    return ", ".join(
        f"<code>{escape(kind)}</code> {_reference(_part(shown))}" for kind, shown in content.items()
    )


def _part(shown: Document) -> Document:
    """Return the schema of the content of a response or request.

    For NDJSON it is the schema of one line, for server-sent events that of one event.
    """
    part: Document = shown.get("x-line") or shown.get("x-event") or shown["schema"]
    return part


def _reference(schema: Document) -> str:
    name = schema["$ref"].rpartition("/")[2]
    return f"<a href='#schema-{name}'>{name}</a>"


def _schema(name: str, schema: Document) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(member)}</code></td><td>{_kind(shown)}</td>"
        f"<td>{'required' if member in schema.get('required', ()) else ''}</td></tr>"
        for member, shown in schema.get("properties", {}).items()
    )
    text = f"<p>{escape(schema.get('description', ''))}</p>"
    text += f"<table>{rows}</table>" if rows else f"<p>{_kind(schema)}</p>"
    return f"<details id='schema-{name}'><summary>{name}</summary>{text}</details>"


def _kind(schema: Document) -> str:
    """Describe a JSON type in a few words of HTML, with links to named schemas."""
    if "$ref" in schema:
        return _reference(schema)
    if "enum" in schema:
        return escape(" | ".join(repr(each) for each in schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any JSON")))


def _found(document: Document, reference: Document) -> Document:
    found: Document = document
    for part in reference["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found
