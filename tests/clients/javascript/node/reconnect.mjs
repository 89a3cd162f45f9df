// Losing the connection and coming back: node reconnect.mjs nats://HOST:PORT
// Subject: protocol
import net from "node:net";
import { core, jetstream, kv } from "./packages.mjs";
import { collect, dial, forget, main, step, until } from "./transcript.mjs";

/** A wire to the server that can be cut. */
async function wire(address) {
  const { hostname, port } = new URL(address);
  const open = new Set();
  const server = net.createServer((socket) => {
    const far = net.connect(Number(port), hostname);
    const pair = [socket, far];
    open.add(pair);
    for (const [from, to] of [pair, [far, socket]]) {
      from.pipe(to);
      from.on("error", () => {});
      from.on("close", () => to.destroy() && open.delete(pair));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `${new URL(address).protocol}//127.0.0.1:${server.address().port}`,
    disconnect: () => open.forEach((pair) => pair.forEach((socket) => socket.destroy())),
    close: () => server.close(),
  };
}

await main(async (steady, address) => {
  const jsm = await jetstream.jetstreamManager(steady);
  await forget(jsm, "JR", "KV_jr");
  await jsm.streams.add({ name: "JR", subjects: ["jr.>"], allow_direct: true });
  const line = await wire(address);
  const options = { reconnectTimeWait: 20, reconnectJitter: 0, maxReconnectAttempts: -1 };
  const nc = await dial(line.address, options);
  const js = jetstream.jetstream(nc);
  const statuses = [];
  collect(nc.status(), (s) => statuses.push(s.type));
  const reconnects = () => statuses.filter((type) => type === "reconnect").length;
  const disconnect = async () => {
    const before = reconnects();
    line.disconnect();
    await until(() => reconnects() > before);
  };

  await step("subscriptions come back", async () => {
    const sub = nc.subscribe("r.a");
    const queued = nc.subscribe("r.q", { queue: "workers" });
    await nc.flush();
    await disconnect();
    await nc.flush();
    steady.publish("r.a", "after");
    steady.publish("r.q", "after");
    await until(() => sub.getReceived() + queued.getReceived() === 2);
    return [sub.getReceived(), queued.getReceived()];
  });
  await step("what was published meanwhile arrives", async () => {
    const sub = steady.subscribe("r.buffer", { max: 3 });
    await steady.flush();
    const before = reconnects();
    line.disconnect();
    await until(() => statuses.filter((type) => type === "disconnect").length > before);
    for (let n = 0; n < 3; n++) nc.publish("r.buffer", String(n));
    const got = await collect(sub, (m) => m.string());
    await until(() => reconnects() > before);
    return got;
  });
  await step("what remained of a maximum remains", async () => {
    const sub = nc.subscribe("r.max", { max: 3 });
    await nc.flush();
    for (let n = 0; n < 2; n++) steady.publish("r.max", String(n));
    await until(() => sub.getReceived() === 2);
    await disconnect();
    await nc.flush();
    for (let n = 2; n < 5; n++) steady.publish("r.max", String(n));
    return collect(sub, (m) => m.string());
  });
  await step("publishing goes on", async () => {
    await js.publish("jr.a", "before", { msgID: "1" });
    await disconnect();
    const again = await js.publish("jr.a", "before", { msgID: "1" });
    return [again.duplicate, (await js.publish("jr.a", "after")).seq];
  });
  await step("consuming goes on", async () => {
    await jsm.consumers.add("JR", { durable_name: "d", ack_policy: "explicit" });
    const c = await js.consumers.get("JR", "d");
    const got = [];
    for await (const m of await c.consume({ max_messages: 10, expires: 2000 })) {
      await m.ackAck();
      got.push(m.string());
      if (got.length === 2) {
        await disconnect();
        for (const text of ["3", "4"]) await jsm.jetstream().publish("jr.a", text);
      }
      if (got.length === 4) break;
    }
    return got;
  });
  await step("an ordered consumer goes on", async () => {
    const c = await js.consumers.get("JR");
    const got = [];
    for await (const m of await c.consume({ max_messages: 2, expires: 1000 })) {
      got.push(m.seq);
      if (got.length === 3) {
        await disconnect();
        // The client learns only from a later message that it lost one on the old connection.
        await jsm.jetstream().publish("jr.a", "later");
      }
      if (got.length === 4) break;
    }
    return got;
  });
  await step("watching goes on", async () => {
    const bucket = await new kv.Kvm(nc).create("jr");
    await bucket.put("a", "1");
    const watcher = await bucket.watch();
    const change = async () => {
      await disconnect();
      await bucket.put("a", "2");
    };
    const got = await collect(watcher, (e) => e.string(), 1, change);
    watcher.stop();
    return got;
  });
  await step("by wish", async () => {
    const before = reconnects();
    await nc.reconnect();
    await until(() => reconnects() > before);
    return statuses.includes("forceReconnect");
  });
  await step("a request is cut", async () => {
    steady.subscribe("r.slow", { max: 1, callback: () => line.disconnect() });
    await steady.flush();
    const before = reconnects();
    const answer = await nc.request("r.slow", "", { timeout: 2000 }).catch((error) => error.name);
    await until(() => reconnects() > before);
    return answer;
  });
  await step("without reconnecting", async () => {
    const once = await dial(line.address, { reconnect: false });
    await disconnect();
    const error = await once.closed();
    return [once.isClosed(), error?.name];
  });
  await nc.close();
  line.close();
  await step("nobody there", async () => {
    const given = { ...options, maxReconnectAttempts: 2 };
    return dial(line.address, given).catch((error) => error.name);
  });
  await forget(jsm, "JR", "KV_jr");
});
