// Core NATS: node core.mjs nats://HOST:PORT, or ws://HOST:PORT
// Subject: protocol
import { core } from "./packages.mjs";
import { brief, collect, dial, main, same, step, until } from "./transcript.mjs";

await main(async (nc, address) => {
  const two = await dial(address, { name: "two", noEcho: true });
  const { proto, headers, max_payload, jetstream, api_lvl } = nc.info;
  await step("info", { proto, headers, max_payload, jetstream, api_lvl });
  await step("round trip", (await nc.rtt()) >= 0);

  // subjects
  await step("wildcards", async () => {
    const counts = [0, 0, 0, 0, 0];
    const count = (index) => (_, m) => (counts[index] += /^[cd]\./.test(m.subject)); // no advisories
    const subs = ["c.*", "c.>", "*.a", "c.a", ">"].map((subject, index) =>
      two.subscribe(subject, { callback: count(index) }),
    );
    await two.flush();
    for (const subject of ["c.a", "c.b.c", "d.a"]) nc.publish(subject, "x");
    await nc.flush();
    await two.flush();
    subs.forEach((sub) => sub.unsubscribe());
    return counts;
  });
  await step("order", async () => {
    const sub = two.subscribe("c.order", { max: 2000 });
    await two.flush();
    for (let n = 0; n < 2000; n++) nc.publish("c.order", String(n));
    const got = await collect(sub, (m) => Number(m.string()));
    return got.every((n, index) => n === index) && got.length;
  });
  await step("a large message", async () => {
    const sub = two.subscribe("c.large", { max: 1 });
    await two.flush();
    const data = new Uint8Array(max_payload - 1000).map((_, i) => i & 255);
    nc.publish("c.large", data);
    const [got] = await collect(sub, (m) => m.data);
    return same(got, data);
  });
  await step("too large a message", async () => nc.publish("c.large", new Uint8Array(max_payload + 1)));
  await step("no subject", async () => nc.publish("", "x"));
  await step("an empty message", async () => {
    const sub = two.subscribe("c.empty", { max: 1 });
    await two.flush();
    nc.publish("c.empty");
    return collect(sub, (m) => [m.data.length, m.headers === undefined, m.reply]);
  });
  await step("echo", async () => {
    const subs = [nc.subscribe("c.echo"), two.subscribe("c.echo")];
    await Promise.all([nc.flush(), two.flush()]);
    nc.publish("c.echo", "1");
    two.publish("c.echo", "2");
    for (const client of [nc, two, nc]) await client.flush();
    return subs.map((sub) => sub.getReceived());
  });
  await step("max", async () => {
    const sub = two.subscribe("c.max");
    sub.unsubscribe(3);
    await two.flush();
    for (let n = 0; n < 5; n++) nc.publish("c.max", String(n));
    return collect(sub, (m) => m.string());
  });
  await step("time out", async () => {
    const sub = two.subscribe("c.nothing", { timeout: 50 });
    return collect(sub);
  });

  // queues
  await step("queues", async () => {
    const counts = [0, 0, 0];
    const member = (index, queue) =>
      two.subscribe("c.work", { queue, callback: () => (counts[index] += 1) });
    const subs = [member(0, "q"), member(1, "q"), member(2, "other")];
    await two.flush();
    for (let n = 0; n < 200; n++) nc.publish("c.work", "x");
    await nc.flush();
    await two.flush();
    subs.forEach((sub) => sub.unsubscribe());
    return [counts[0] + counts[1], counts[2], counts[0] > 0 && counts[1] > 0];
  });

  // headers
  await step("headers", async () => {
    const sub = two.subscribe("c.headers", { max: 1 });
    await two.flush();
    const h = core.headers();
    h.set("X-Key", "value");
    h.append("X-List", "1");
    h.append("X-List", "2");
    h.set("x-key", "other");
    nc.publish("c.headers", "body", { headers: h });
    return collect(sub, (m) => [m.string(), m.headers]);
  });

  // requests
  two.subscribe("c.service", { callback: (_, m) => m.respond(m.string().toUpperCase()) });
  two.subscribe("c.silent", { callback: () => {} });
  two.subscribe("c.stream", {
    callback: (_, m) => ["1", "2", "3", ""].forEach((text) => m.respond(text)),
  });
  await two.flush();
  await step("request", nc.request("c.service", "hello", { timeout: 20000 }).then((m) => m.string()));
  const apart = { timeout: 20000, noMux: true };
  await step("without mux", nc.request("c.service", "apart", apart).then((m) => m.string()));
  await step("own inbox", async () => {
    const options = { ...apart, reply: core.createInbox() };
    return (await nc.request("c.service", "own", options)).string();
  });
  await step("many requests", async () => {
    const ask = (n) => nc.request("c.service", `r${n}`, { timeout: 20000 });
    const answers = Array.from({ length: 500 }, (_, n) => ask(n));
    return (await Promise.all(answers)).every((m, n) => m.string() === `R${n}`);
  });
  await step("nobody", nc.request("c.nobody", "", { timeout: 20000 }));
  await step("no answer", nc.request("c.silent", "", { timeout: 50 }));
  const many = async (options) => collect(await nc.requestMany("c.stream", "", options), brief2);
  const brief2 = (m) => m.string();
  await step("many by count", many({ strategy: "count", maxMessages: 2, maxWait: 20000 }));
  await step("many by sentinel", many({ strategy: "sentinel", maxWait: 20000 }));
  // who waits for a time only has all of them when the machine is not slower than that
  const all = (options) =>
    until(async () => {
      const got = await many(options);
      return got.length >= 4 && got;
    });
  await step("many by time", all({ strategy: "timer", maxWait: 100 }));
  await step("many until a stall", all({ strategy: "stall", stall: 50, maxWait: 2000 }));
  await step("many from nobody", async () =>
    collect(await nc.requestMany("c.nobody", "", { strategy: "count", maxMessages: 1, maxWait: 20000 })),
  );
  await step("respond later", async () => {
    const sub = two.subscribe("c.later", { max: 1 });
    await two.flush();
    const answer = nc.request("c.later", "q", { timeout: 20000 });
    for await (const m of sub) two.publish(m.reply, `${m.string()}-answered`);
    return (await answer).string();
  });
  await step("who am I", async () => {
    const { data } = (await nc.request("$SYS.REQ.USER.INFO", "", { timeout: 20000 })).json();
    return data;
  });

  // endings
  await step("unsubscribe", async () => {
    const sub = two.subscribe("c.end");
    await two.flush();
    nc.publish("c.end", "1");
    await until(() => sub.getReceived() === 1);
    sub.unsubscribe();
    await two.flush();
    nc.publish("c.end", "2");
    await nc.flush();
    return [sub.getReceived(), sub.isClosed(), await collect(sub, brief)];
  });
  await step("drain a subscription", async () => {
    const sub = two.subscribe("c.drain");
    await two.flush();
    for (let n = 0; n < 50; n++) nc.publish("c.drain", String(n));
    await nc.flush();
    const drained = sub.drain();
    const got = await collect(sub);
    await drained;
    return [got.length, sub.isClosed()];
  });
  await step("drain a connection", async () => {
    const three = await dial(address);
    const got = [];
    three.subscribe("c.last", { callback: (_, m) => got.push(m.string()) && m.respond("late") });
    await three.flush();
    const sub = nc.subscribe("c.answers");
    await nc.flush();
    for (let n = 0; n < 20; n++) nc.publish("c.last", String(n), { reply: "c.answers" });
    await nc.flush();
    await three.drain();
    await until(() => sub.getReceived() === 20);
    return [got.length, three.isClosed(), sub.getReceived()];
  });
  await step("after the end", async () => {
    await two.close();
    return two.publish("c.a", "x");
  });
  await step("statistics", async () => {
    const four = await dial(address); // what others do is a matter of time
    const sub = four.subscribe("c.counted", { max: 3 });
    for (let n = 0; n < 3; n++) four.publish("c.counted", "x");
    await collect(sub);
    const { inMsgs, outMsgs, outBytes, inBytes } = four.stats();
    await four.close();
    return [inMsgs, outMsgs, outBytes, inBytes];
  });
});
