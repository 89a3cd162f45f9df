// What went wrong, and what can be done about it.

import { h } from "./dom.js";
import { Unreachable } from "./http.js";

const ADVICE = {
  "body-too-large": "Send less at once, or allow more: docs/http-auth.md lists the limits.",
  "bucket-not-found": "It may have been deleted meanwhile. Go back to the list.",
  "consumer-not-found": "It may have been deleted, or have ended for want of use. Go back to the list.",
  "cross-site": "Open the console by the address that the server has for itself, or allow this one with --http-cors-origin.",
  "no-answer": "Nobody knows whether it was done. Look, then try again; a message id lets it be stored once only.",
  "no-inbox": "This user cannot read answers: it needs permission to subscribe to _INBOX.NAME.>, with its name.",
  "no-message-found": "It was deleted, has expired, or was never there.",
  "no-stream": "Create a stream that has this subject among its own, or correct the subject.",
  "not-permitted": "Sign in as somebody who may, or have this user permitted to publish to the subject that this needs: docs/http-auth.md lists it for every action.",
  "precondition-failed": "Somebody else has changed it meanwhile. Close this, look at it again, and repeat your change.",
  "quota-exceeded": "Too many requests for the rate limit of this server. It goes on by itself in a moment.",
  "stream-not-found": "It may have been deleted meanwhile. Go back to the list.",
  "stream-store-failed": "The stream is full and refuses new messages: purge it, or raise its limits.",
  "stream-subject-overlap": "Another stream stores some of these subjects already. Each belongs to one stream.",
  "stream-wrong-last-msg-id": "Another message came in between. Look at the newest one, then try again.",
  "stream-wrong-last-sequence": "Another message came in between. Look at the newest one, then try again with its sequence.",
};

/** The error as an alert; `title` says what was tried. */
export function trouble(error, title = "") {
  if (error instanceof Unreachable) {
    return h("div", { class: "trouble", role: "alert" }, title && h("b", {}, title), h("p", {}, "The server does not answer. It is tried again; what you entered stays here."));
  }
  const { problem = {}, kind = "" } = error;
  const said = error.message || String(error);
  const facts = [];
  if (problem.current_sequence) facts.push(`the current sequence is ${problem.current_sequence}`);
  const advice = ADVICE[kind];
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("b", {}, title || problem.title || "That did not work"),
    h("p", {}, said, facts.length > 0 && !said.includes(String(problem.current_sequence)) && ` (${facts.join(", ")})`),
    advice && h("p", {}, advice),
    kind && error.status && h("p", { class: "dim" }, `${error.status} `, h("a", { href: `/docs/problems/${encodeURIComponent(kind)}`, target: "_blank", rel: "noopener" }, kind)),
  );
}

/** A place that shows an error, or nothing for undefined. */
export function troublePlace(title = "") {
  const place = h("div", {});
  let shown = "";
  const show = (error) => {
    const said = error ? `${error.kind} ${error.message}` : "";
    if (said === shown) return;
    shown = said;
    place.replaceChildren(...(error ? [trouble(error, title)] : []));
  };
  return [place, show];
}
