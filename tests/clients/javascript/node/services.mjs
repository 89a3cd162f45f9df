// Services (ADR-32): node services.mjs nats://HOST:PORT
// Subject: services
import { services } from "./packages.mjs";
import { collect, dial, main, step, until } from "./transcript.mjs";

const { Svcm, ServiceError } = services;

await main(async (nc, address) => {
  const two = await dial(address);
  const config = {
    name: "calc",
    version: "1.2.3",
    description: "adds and divides",
    metadata: { by: "node" },
  };
  const statsHandler = async () => ({ custom: 7 });
  const both = await Promise.all(
    [nc, two].map((client) => new Svcm(client).add({ ...config, statsHandler })),
  );
  for (const service of both) {
    service.addEndpoint("sum", (_, m) => {
      m.respond(JSON.stringify(m.json().reduce((a, b) => a + b, 0)));
    });
    const group = service.addGroup("v1").addGroup("deep");
    group.addEndpoint("divide", {
      metadata: { kind: "group" },
      handler: (_, m) => {
        const [a, b] = m.json();
        if (b === 0) m.respondError(400, "division by zero", "no");
        else m.respond(String(a / b));
      },
    });
    service.addEndpoint("apart", {
      subject: "calc.own.*",
      queue: "other",
      handler: (_, m) => m.respond(m.subject),
    });
  }
  await Promise.all([nc.flush(), two.flush()]);

  const ask = async (subject, body) => {
    const m = await two.request(subject, body, { timeout: 20000 });
    const error = ServiceError.isServiceError(m) && ServiceError.toServiceError(m);
    return [m.string(), error && [error.code, error.message]];
  };
  await step("sum", ask("sum", "[1, 2, 3]"));
  await step("divide", ask("v1.deep.divide", "[6, 3]"));
  await step("error", ask("v1.deep.divide", "[6, 0]"));
  await step("own subject", ask("calc.own.x", ""));
  await step("unknown", ask("calc.none", ""));
  await step("shared", async () => {
    const asked = Array.from({ length: 100 }, (_, n) => ask("sum", `[${n}]`));
    await Promise.all(asked);
    const stats = await Promise.all(both.map((service) => service.stats()));
    const counts = stats.map((s) => s.endpoints.find((e) => e.name === "sum").num_requests);
    return [counts[0] + counts[1], counts[0] > 0, counts[1] > 0];
  });

  // finding them
  const anonymous = ({ id, started, ...rest }) => rest;
  const endpoint = ({ name, subject, queue_group, num_errors, last_error, data }) => {
    return { name, subject, queue_group, num_errors, last_error, data };
  };
  const client = new Svcm(two).client({ strategy: "stall", stall: 100, maxWait: 1000 });
  // who answers later than the client waits is missing; it asks again
  const heard = (count, ask, pick) =>
    until(async () => {
      const found = await collect(await ask(), pick);
      return found.length >= count && found;
    });
  await step("ping", heard(2, () => client.ping(), anonymous));
  await step("ping by name", async () => (await heard(2, () => client.ping("calc"))).length);
  await step("ping by id", async () => {
    const [found] = await heard(1, () => client.ping("calc", both[0].info().id));
    return found.id === both[0].info().id;
  });
  await step("ping nobody", async () => collect(await client.ping("none")));
  await step("info", heard(2, () => client.info("calc"), anonymous));
  await step("stats", async () => {
    const found = await heard(2, () => client.stats("calc"));
    return found.map((s) => s.endpoints.map(endpoint));
  });
  await step("reset", async () => {
    both.forEach((service) => service.reset());
    const stats = await both[0].stats();
    return stats.endpoints.map((e) => e.num_requests);
  });
  await step("one stops", async () => {
    await both[0].stop();
    return [both[0].isStopped, (await heard(1, () => client.ping("calc"))).length];
  });
  await step("the other serves", ask("sum", "[4, 5]"));
  await step("all stop", async () => {
    await both[1].stop();
    return ask("sum", "[1]");
  });
  await two.close();
});
