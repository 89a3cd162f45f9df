// The official packages, found where NODE_PATH says.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

export const core = require("@nats-io/nats-core");
export const transport = require("@nats-io/transport-node");
export const jetstream = require("@nats-io/jetstream");
export const kv = require("@nats-io/kv");
export const obj = require("@nats-io/obj");
export const services = require("@nats-io/services");
globalThis.WebSocket ??= require("ws");
