// Who gets in, and what a browser agrees on with the server: a step for each of the job's doors.
import { core } from "../node/packages.mjs";
import { step } from "../node/transcript.mjs";

async function extensions(address) {
  const socket = new WebSocket(address);
  await new Promise((resolve) => (socket.onopen = socket.onerror = resolve));
  const agreed = socket.extensions;
  socket.close();
  return agreed;
}

for (const { name, address, ...options } of globalThis.job.doors) {
  await step(name, async () => {
    const nc = await core.wsconnect({ servers: address, reconnect: false, ...options });
    const { data } = (await nc.request("$SYS.REQ.USER.INFO", "", { timeout: 20000 })).json();
    await nc.close();
    return [data.user, await extensions(address)];
  });
}
