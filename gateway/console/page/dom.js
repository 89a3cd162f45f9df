// Elements and text nodes. Nothing here takes markup, so what a message says stays text.

const OWN = /^(#|\/(?!\/))/; // links lead to this page or this server

/** An element with attributes and children; functions are listeners, null and false are left out. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "value" || name === "checked") made[name] = value;
    else if (name === "href" && !OWN.test(value)) throw new Error(`a link to ${value}`);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, children);
  return made;
}

/** Append children: nodes, text, lists of them. */
export function add(to, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    to.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return to;
}

/** Put children in the place of those that are there. */
export function fill(to, ...children) {
  to.replaceChildren();
  return add(to, children);
}

export function button(text, click, attributes = {}) {
  return h("button", { type: "button", click, ...attributes }, text);
}

/** Tell everybody, screen readers too, that something happened. */
export function say(text) {
  const place = document.querySelector(".said");
  const note = h("p", {}, text);
  place.append(note);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => note.remove(), 6000);
}

/** A button that copies a text. */
export function copier(text, label = "Copy") {
  const made = button(label, async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      made.textContent = "Copied";
    } catch {
      made.textContent = "Select and copy by hand"; // over plain HTTP browsers give pages no clipboard
    }
    setTimeout(() => (made.textContent = label), 2000);
  }, { class: "quiet" });
  return made;
}

/** Lines to paste into a shell. */
export function lines(...texts) {
  const text = texts.join("\n");
  return h("div", { class: "lines" }, h("pre", { tabindex: "0" }, text), copier(text));
}

/**
 * A modal dialog. `build` gets a function that closes it; the promise has what that was given.
 */
export function dialog(title, build, attributes = {}) {
  return new Promise((resolve) => {
    let result;
    const heading = h("h2", { id: `t${Math.random().toString(36).slice(2)}` }, title);
    const close = (value) => {
      result = value;
      box.close();
    };
    const x = button("Close", () => close(), { class: "quiet close" });
    const box = h("dialog", { "aria-labelledby": heading.id, ...attributes });
    const leave = () => close();
    add(box, [h("div", { class: "head" }, heading, attributes["data-must"] ? null : x), build(close, heading)]);
    box.addEventListener("cancel", (event) => attributes["data-must"] && event.preventDefault());
    box.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      box.remove();
      resolve(result);
    });
    if (!attributes["data-must"]) addEventListener("hashchange", leave);
    document.body.append(box);
    box.showModal();
    (box.querySelector("[autofocus]") ?? box.querySelector("input, textarea, select"))?.focus();
  });
}
