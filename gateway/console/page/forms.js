// Forms: labelled fields, one way to send them and to show a refusal, and confirmations.

import { add, button, dialog, h } from "./dom.js";
import { trouble } from "./trouble.js";

let numbers = 0;

/** A labelled control with a hint below it. */
export function field(label, control, hint) {
  control.id ||= `f${++numbers}`;
  const note = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export const input = (attributes = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
export const area = (attributes = {}) => h("textarea", { spellcheck: "false", rows: "6", ...attributes });
export const check = (label, attributes = {}) => {
  const control = h("input", { type: "checkbox", ...attributes });
  return [h("label", { class: "check" }, control, " ", label), control];
};

export function select(options, value, attributes = {}) {
  const made = h("select", attributes, options.map((each) => {
    const [key, text] = Array.isArray(each) ? each : [each, each];
    return h("option", { value: key }, text);
  }));
  made.value = value ?? made.options[0]?.value;
  return made;
}

/**
 * A form that sends once at a time and shows why it could not be sent.
 *
 * `send` does it; what it throws is shown. Ctrl+Enter sends from a text area, too.
 */
export function form(parts, label, send, { cancel, danger, title = "" } = {}) {
  const result = h("div", {});
  const submit = h("button", { type: "submit", class: danger ? "danger" : "primary" }, label);
  const made = h("form", { class: "form", submit: run, keydown: keys }, parts, result,
    h("div", { class: "buttons" }, submit, cancel && button("Cancel", cancel, danger ? { autofocus: true } : {})));
  async function run(event) {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    result.replaceChildren();
    try {
      await send();
    } catch (error) {
      result.append(trouble(error, title));
    } finally {
      submit.disabled = false;
    }
  }
  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      made.requestSubmit();
    }
  }
  return made;
}

/** Ask whether to do what cannot be undone; resolves to true when it was done. */
export function confirm(title, text, label, act) {
  return dialog(title, (close) => {
    const send = async () => {
      await act();
      close(true);
    };
    return form([add(h("div", {}), [text].flat().map((each) => (each instanceof Node ? each : h("p", {}, each))))], label, send, { cancel: () => close(), danger: true });
  }, { class: "small", role: "alertdialog" });
}

/** A refusal of ours, before anything is sent. */
export function wrong(text) {
  return Object.assign(new Error(text), { problem: { title: "Please correct this" } });
}

/** A whole number of a field; undefined when the field is empty. */
export function number(control, what, least = 0) {
  const text = control.value.trim().replace(/[, ]/g, "");
  if (!text) return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) throw wrong(`${what}: a whole number from ${least} on`);
  return value;
}
