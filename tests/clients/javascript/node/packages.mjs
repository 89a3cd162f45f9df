// The official packages, found where NODE_PATH says.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

export const core = require("@nats-io/nats-core");
export const transport = require("@nats-io/transport-node");
export const jetstream = require("@nats-io/jetstream");
// What the package has and does not show yet: fast-ingest batches.
export const unexposed = require("@nats-io/jetstream/internal");
export const kv = require("@nats-io/kv");
export const obj = require("@nats-io/obj");
export const services = require("@nats-io/services");
globalThis.WebSocket ??= require("ws");
