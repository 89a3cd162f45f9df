import { consume, settle, type AckOptions, type ConsumeOptions, type Delivery } from "./consuming.js";
import { ConnectionLost, problemOf } from "./errors.js";
import { advisories, type Event } from "./events.js";
import { createClient } from "./generated/client/index.js";
import {
  Operations,
  type ConsumerConfig,
  type ConsumerInfo,
  type KvConfig,
  type ObjectStoreConfig,
  type StreamConfig,
  type StreamInfo,
} from "./generated/index.js";
import { Bucket } from "./kv.js";
import { ObjectStore } from "./objects.js";
import type { Message, Payload } from "./payloads.js";
import {
  publish,
  publishMany,
  read,
  request,
  type Outcome,
  type Outgoing,
  type PublishOptions,
  type Receipt,
} from "./publishing.js";
import { DEFAULT_RETRY, type Retry } from "./retrying.js";
import { Socket, type SocketOptions } from "./socket.js";
import { tail, type Gap, type TailOptions } from "./tail.js";
import { JSON_TYPE, Transport, pathOf, type Credentials, type Token } from "./transport.js";

/** How a server is reached. */
export interface ConnectOptions {
  /** Sent as a bearer token; a function is asked for it before each request. */
  token?: Token;
  /** With `password`, sent as basic credentials. */
  user?: string;
  password?: string;
  /** How often and how long things are tried again. */
  retry?: Partial<Retry>;
  /** Seconds that a request may take. */
  timeout?: number;
  /** Another `fetch`. */
  fetch?: typeof fetch;
}

/** A client of the server at `url`; nothing is sent yet. */
export function connect(url = "http://localhost:8080", options: ConnectOptions = {}): Jetgate {
  const { token, user = "", password = "" } = options;
  const current = async (): Promise<string> => (typeof token === "function" ? token() : token ?? "");
  const credentials = async (): Promise<Credentials> => ({ token: await current(), user, password });
  const fetched: typeof fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  const retry = { ...DEFAULT_RETRY, ...options.retry };
  const at = url.replace(/\/+$/, "");
  return new Jetgate(new Transport(at, retry, credentials, options.timeout ?? 30, fetched));
}

/** A client. */
export class Jetgate {
  /** One method for each operation of the server. Their refusals are thrown as Problem, too. */
  readonly api: Operations;

  constructor(private readonly transport: Transport) {
    const { url: baseUrl, fetch } = transport;
    const client = createClient({ baseUrl, fetch, headers: { Accept: JSON_TYPE }, throwOnError: true });
    client.interceptors.error.use((error, response) =>
      response === undefined
        ? new ConnectionLost(String(error), { cause: error })
        : problemOf(response, error),
    );
    this.api = new Operations({ client, key: baseUrl });
  }

  /** Create a stream, or replace its configuration. */
  async putStream(stream: string, config: Omit<StreamConfig, "name"> = {}): Promise<StreamInfo> {
    return this.api.putStream({ path: { stream }, body: { name: stream, ...config } });
  }

  /** Create a durable consumer, or replace its configuration. */
  async putConsumer(
    stream: string,
    consumer: string,
    config: ConsumerConfig = {},
  ): Promise<ConsumerInfo> {
    const body = { durable_name: consumer, ...config };
    return this.api.putConsumer({ path: { stream, consumer }, body });
  }

  /** Create a key-value bucket, or replace its configuration. */
  async putBucket(bucket: string, config: KvConfig = {}): Promise<Bucket> {
    await this.api.putKvBucket({ path: { bucket }, body: { bucket, ...config } });
    return this.bucket(bucket);
  }

  /** A bucket that is there. */
  bucket(name: string): Bucket {
    return new Bucket(this.transport, name);
  }

  /** Create an object store, or replace its configuration. */
  async putStore(bucket: string, config: ObjectStoreConfig = {}): Promise<ObjectStore> {
    await this.api.putObjectStore({ path: { bucket }, body: { bucket, ...config } });
    return this.store(bucket);
  }

  /** An object store that is there. */
  store(name: string): ObjectStore {
    return new ObjectStore(this.transport, name);
  }

  /**
   * Publish a message; return when it is stored.
   *
   * It carries an id, and is sent again until there is an outcome. Throws Problem, OutcomeUnknown.
   */
  publish(subject: string, payload: Payload = "", options: PublishOptions = {}): Promise<Receipt> {
    return publish(this.transport, subject, payload, options);
  }

  /** Publish messages, a thousand in a request; what became of each, in their order. */
  publishMany(messages: Iterable<Outgoing>): Promise<Outcome[]> {
    return publishMany(this.transport, messages);
  }

  /** Ask whoever serves a subject, for `within` seconds; sent once. */
  request(
    subject: string,
    payload: Payload = "",
    options: { headers?: Record<string, string>; within?: number } = {},
  ): Promise<Message> {
    return request(this.transport, subject, payload, options);
  }

  /** The message of a sequence. Throws NotFound. */
  message(stream: string, seq: number): Promise<Message> {
    return read(this.transport, pathOf(["streams", stream, "messages", String(seq)]));
  }

  /** The last message of a subject. Throws NotFound. */
  lastMessage(stream: string, subject: string): Promise<Message> {
    return read(this.transport, pathOf(["streams", stream, "messages"]), { last_by: subject });
  }

  /** The messages of a consumer, without end. */
  consume(
    stream: string,
    consumer: string,
    options: ConsumeOptions = {},
  ): AsyncGenerator<Delivery, void, undefined> {
    return consume(this.transport, stream, consumer, options);
  }

  /** Acknowledge many at once. Throws the first Problem. */
  ack(deliveries: Iterable<Delivery>, options: AckOptions = {}): Promise<void> {
    return settle(this.transport, "ack", deliveries, { ...options });
  }

  /** The messages of a stream as they are stored, and a Gap where some are missing. */
  tail(stream: string, options: TailOptions = {}): AsyncGenerator<Message | Gap, void, undefined> {
    return tail(this.transport, stream, options);
  }

  /** Feeds and publishes over one WebSocket; it is opened when it is first needed. */
  socket(options: SocketOptions = {}): Socket {
    return new Socket(this.transport, options);
  }

  /** Advisories, as they are published. */
  advisories(
    options: { subject?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<Event, void, undefined> {
    return advisories(this.transport, options.subject ?? "", options.signal);
  }
}
