// The part of the contract that is generated as methods; `reduced` of sdks/generate.py does the same for
// Python, and a test compares both. Problems and streams of lines or events are read by the written part;
// pages of the console are none of an SDK's concern. What can be JSON is JSON, every other body is bytes.
const JSON_TYPE = "application/json";
const OCTETS = "application/octet-stream";
const STREAMED = new Set(["application/x-ndjson", "text/event-stream"]);
const PAGES = new Set(["text/css", "text/html", "text/javascript"]);

/** Return a reduced copy of an OpenAPI document. */
export function reduced(contract) {
  const document = structuredClone(contract);
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      if (!reduce(operation)) delete operations[method];
    }
    if (Object.keys(operations).length === 0) delete document.paths[path];
  }
  const { components } = document;
  delete components.responses;
  delete components.headers;
  components.schemas.Bytes = { title: "Bytes", type: "string", format: "binary" };
  delete components.schemas.Lines;
  delete components.schemas.Events;
  prune(document);
  return document;
}

// Reduce an operation in place; return false if it is to be omitted.
function reduce(operation) {
  delete operation["x-problems"];
  const body = operation.requestBody;
  if (body?.content) body.content = one(body.content);
  const responses = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
  for (const [, response] of responses) {
    delete response.headers;
    if (!response.content) continue;
    const types = Object.keys(response.content);
    if (types.some((type) => PAGES.has(type)) || types.every((type) => STREAMED.has(type))) return false;
    response.content = one(response.content);
  }
  operation.responses = Object.fromEntries(responses);
  return responses.length > 0;
}

// The one media type that is used: JSON if it is there, else the first.
function one(content) {
  const [first] = Object.keys(content);
  const type = JSON_TYPE in content ? JSON_TYPE : first;
  return { [type === "*/*" ? OCTETS : type]: { schema: content[type].schema } };
}

// Remove the schemas that no operation refers to, directly or through others.
function prune(document) {
  const { schemas, ...components } = document.components;
  const used = new Set();
  const waiting = references({ ...document, components });
  while (waiting.length > 0) {
    const name = waiting.pop();
    if (used.has(name)) continue;
    used.add(name);
    waiting.push(...references(schemas[name]));
  }
  for (const name of Object.keys(schemas)) if (!used.has(name)) delete schemas[name];
}

function references(value) {
  if (Array.isArray(value)) return value.flatMap(references);
  if (value === null || typeof value !== "object") return [];
  const found = Object.values(value).flatMap(references);
  const [, name] = /^#\/components\/schemas\/(.+)$/.exec(value.$ref) ?? [];
  return name === undefined ? found : [...found, name];
}
