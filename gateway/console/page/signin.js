// Who looks: a session, kept in a cookie that no script can read.

import { button, dialog, h, say } from "./dom.js";
import { field, form, input, select, wrong } from "./forms.js";
import { Refused, ask, send } from "./http.js";

let asking = null;

/** Show who is signed in, with a way out; nothing where the server knows no users. */
export async function showWho(place) {
  const session = await ask("/v1/session");
  place.replaceChildren();
  if (!session.name) return;
  place.append(h("span", { class: "dim who" }, session.name), button("Sign out", signOut, { class: "quiet" }));
}

async function signOut() {
  try {
    await send("/v1/session", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  location.hash = "#/streams";
  location.reload();
}

/** Ask who it is until that is known; all requests that wait are let go on then. */
export function signIn(why) {
  asking ??= dialog(why.kind === "session-ended" ? "Sign in again" : "Sign in", (close) => page(why, close), { class: "small", "data-must": "" });
  return asking.finally(() => (asking = null));
}

function page(why, close) {
  const user = input({ name: "username", autocomplete: "username", autofocus: true });
  const password = input({ type: "password", name: "password", autocomplete: "current-password" });
  const token = input({ type: "password", name: "token" });
  const kind = select([["user", "a user and a password"], ["token", "a token"]], "user");
  const byUser = h("div", {}, field("User", user), field("Password", password));
  const byToken = h("div", { hidden: true }, field("Token", token));
  kind.addEventListener("change", () => {
    byUser.hidden = kind.value !== "user";
    byToken.hidden = kind.value === "user";
  });
  const ended = why.kind === "session-ended";
  const text = ended ? "The session has ended, as it does when the server starts anew. You go on where you were." : "This server wants to know who looks.";
  const enter = async () => {
    const Authorization = kind.value === "user" ? basic(user.value, password.value) : `Bearer ${token.value}`;
    try {
      await send("/v1/session", { method: "POST", headers: { Authorization } });
    } catch (error) {
      if (error.status === 401) throw wrong("The server knows nobody with these credentials.");
      throw error;
    }
    say("Signed in.");
    dispatchEvent(new Event("signed-in"));
    close(true);
  };
  return form([h("p", {}, text), field("With", kind), byUser, byToken], "Sign in", enter, {});
}

function basic(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}
