// What a JavaScript program does with core NATS over WebSocket: node core.cjs ws://HOST:PORT
globalThis.WebSocket = require("ws");
const assert = require("node:assert");
const { wsconnect, headers, createInbox } = require("@nats-io/nats-core");

async function main(url) {
  const options = { servers: url, user: "js", pass: "script" };
  const one = await wsconnect(options);
  const two = await wsconnect(options);
  assert.strictEqual(one.info.max_payload, 1048576);

  // one large message, bytes of every value
  const large = new Uint8Array(1000000).map((_, i) => i & 255);
  const got = new Promise((done) => two.subscribe("large", { max: 1, callback: (_, m) => done(m) }));
  await two.flush();
  one.publish("large", large);
  assert.deepStrictEqual(Buffer.from((await got).data), Buffer.from(large));

  // many small ones, in order
  const sub = two.subscribe("many.*", { max: 5000 });
  await two.flush();
  for (let n = 0; n < 5000; n++) one.publish(`many.${n}`, String(n));
  let next = 0;
  for await (const m of sub) assert.strictEqual(m.string(), String(next++));
  assert.strictEqual(next, 5000);

  // request and reply with headers, through a queue group
  for (const nc of [one, two]) {
    nc.subscribe("service", {
      queue: "q",
      callback: (_, m) => m.respond(m.string().toUpperCase(), { headers: m.headers }),
    });
    await nc.flush();
  }
  const h = headers();
  h.set("X-Key", "value");
  const reply = await one.request("service", "hello", { headers: h, timeout: 20000 });
  assert.strictEqual(reply.string(), "HELLO");
  assert.strictEqual(reply.headers.get("X-Key"), "value");
  await assert.rejects(one.request("nobody", "", { timeout: 20000 }), /no responders/i);

  // a subscription that is not permitted says so
  const refused = await new Promise((done) => one.subscribe("secret.a", { callback: (e) => done(e) }));
  assert.match(refused.message, /permissions violation/i);
  await assert.rejects(wsconnect({ servers: url, user: "js", pass: "no", reconnect: false }));

  await one.drain();
  await two.close();
  console.log("ok");
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
