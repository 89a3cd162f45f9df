// One who publishes, fetches and keeps keys, told what to do by lines of JSON.
// node actor.mjs nats.js nats://HOST:PORT, or: node actor.mjs SDK http://HOST:PORT
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , how, url] = process.argv;

async function official() {
  const { transport, jetstream, kv, obj } = await import("../../clients/javascript/node/packages.mjs");
  const nc = await transport.connect({ servers: url });
  const js = jetstream.jetstream(nc);
  const open = (bucket) => new kv.Kvm(nc).open(bucket);
  const store = (bucket) => new obj.Objm(nc).open(bucket);
  let held;
  return {
    publish: async ({ subject, text }) => void (await js.publish(subject, text)),
    async fetch({ stream, consumer }) {
      held = await (await js.consumers.get(stream, consumer)).next();
      return [held.string(), held.info.deliveryCount];
    },
    nak: () => held.nak(),
    ack: async () => void (await held.ackAck()),
    put: async ({ bucket, key, text }) => (await open(bucket)).put(key, text),
    update: async ({ bucket, key, text, revision }) =>
      (await open(bucket)).update(key, text, revision),
    async get({ bucket, key }) {
      const entry = await (await open(bucket)).get(key);
      return entry?.operation === "PUT" ? [entry.string(), entry.revision] : null;
    },
    delete: async ({ bucket, key }) => (await open(bucket)).delete(key),
    putObject: async ({ bucket, name, text }) =>
      void (await (await store(bucket)).putBlob({ name }, new TextEncoder().encode(text))),
    async getObject({ bucket, name }) {
      const found = await (await store(bucket)).getBlob(name);
      return found && new TextDecoder().decode(found);
    },
    deleteObject: async ({ bucket, name }) => void (await (await store(bucket)).delete(name)),
    close: () => nc.close(),
  };
}

async function ours() {
  const { connect } = await import(pathToFileURL(how).href);
  const js = connect(url);
  let held;
  return {
    publish: async ({ subject, text }) => void (await js.publish(subject, text)),
    async fetch({ stream, consumer }) {
      for await (held of js.consume(stream, consumer, { batch: 1 })) break;
      return [held.text(), held.delivered];
    },
    nak: () => held.nak({ sync: true }),
    ack: () => held.ack({ sync: true }),
    put: ({ bucket, key, text }) => js.bucket(bucket).put(key, text),
    update: ({ bucket, key, text, revision }) => js.bucket(bucket).update(key, text, revision),
    async get({ bucket, key }) {
      const entry = await js.bucket(bucket).get(key);
      return entry ? [entry.text(), entry.revision] : null;
    },
    delete: ({ bucket, key }) => js.bucket(bucket).delete(key),
    putObject: async ({ bucket, name, text }) => void (await js.store(bucket).put(name, text)),
    async getObject({ bucket, name }) {
      if (!(await js.store(bucket).info(name))) return null;
      return new TextDecoder().decode(await js.store(bucket).get(name));
    },
    deleteObject: ({ bucket, name }) => js.store(bucket).delete(name),
    close: () => undefined,
  };
}

const actor = await (how === "nats.js" ? official() : ours());
for await (const line of createInterface({ input: process.stdin })) {
  const { act, ...said } = JSON.parse(line);
  const result = (await actor[act](said)) ?? null;
  console.log(JSON.stringify(result));
}
await actor.close();
