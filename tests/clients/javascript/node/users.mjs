// Users, tokens and permissions: node users.mjs nats://HOST:PORT, of a server with the users below
//   ann/secret may do everything, bob/other may publish to and subscribe to what tests say
// Subject: permissions
import { core } from "./packages.mjs";
import { collect, dial, step, until } from "./transcript.mjs";

const address = process.argv[2];
const once = { reconnect: false };
const who = async (nc) => {
  const { data } = (await nc.request("$SYS.REQ.USER.INFO", "", { timeout: 20000 })).json();
  await nc.close();
  // the reference lists subjects in any order
  return JSON.parse(JSON.stringify(data, (_, v) => (Array.isArray(v) ? v.sort() : v)));
};

await step("user and password", dial(address, { ...once, user: "ann", pass: "secret" }).then(who));
await step("an authenticator", async () => {
  const authenticator = core.usernamePasswordAuthenticator(() => "ann", () => "secret");
  return who(await dial(address, { ...once, authenticator }));
});
await step("in the address", async () => {
  const [protocol, host] = address.split("//");
  return who(await dial(`${protocol}//ann:secret@${host}`, once));
});
await step("hashed password", dial(address, { ...once, user: "bob", pass: "other" }).then(who));
await step("wrong password", dial(address, { ...once, user: "ann", pass: "wrong" }));
await step("unknown user", dial(address, { ...once, user: "cid", pass: "secret" }));
await step("nobody", dial(address, once));
await step("a token", dial(address, { ...once, token: "secret" }));

const ann = await dial(address, { user: "ann", pass: "secret" });
const bob = await dial(address, { user: "bob", pass: "other" });
const problems = [];
const statuses = collect(bob.status(), (s) => {
  if (s.type === "error") problems.push([s.error.name, s.error.operation, s.error.subject]);
});
const told = async (count) => {
  await until(() => problems.length === count);
  return problems.slice(-1);
};
await step("may subscribe", async () => {
  const sub = bob.subscribe("open.>", { max: 1 });
  await bob.flush();
  ann.publish("open.a", "x");
  return collect(sub, (m) => m.subject);
});
await step("may not subscribe", async () => {
  const error = await new Promise((resolve) => bob.subscribe("closed.>", { callback: resolve }));
  return [error.name, error.operation, error.subject, ...(await told(1))];
});
await step("may not subscribe in a queue", async () => {
  const options = (callback) => ({ queue: "others", callback });
  const error = await new Promise((resolve) => bob.subscribe("work", options(resolve)));
  return [error.name, error.operation, error.subject, error.queue];
});
await step("may subscribe in its queue", async () => {
  const sub = bob.subscribe("work", { queue: "own", max: 1 });
  await bob.flush();
  ann.publish("work", "x");
  return collect(sub, (m) => m.string());
});
await step("may not publish", async () => {
  bob.publish("closed.a", "x");
  return told(3);
});
await step("may not request", bob.request("closed.a", "", { timeout: 1000 }));
await step("may answer, once", async () => {
  bob.subscribe("open.ask", { callback: (_, m) => m.respond("1") && m.respond("2") });
  await bob.flush();
  const options = { strategy: "timer", maxWait: 200 };
  return until(async () => {
    const got = await collect(await ann.requestMany("open.ask", "", options), (m) => m.string());
    return got.length > 0 && got; // none came within that time
  });
});
await bob.close();
await ann.close();
await statuses;
