/** A stand-in for the service: real HTTP, and answers that a test chooses. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export const SETTINGS = {
  ...{ name: "shoes", rankers: ["production", "candidate"], control: "production", method: "competitive_pairs" },
  ...{ k: 3, share: 1, lane: null, offset: null, holdout: 0, mode: "compare" },
};

type Answer = [status: number, body: unknown, headers?: Record<string, string>];

export class StandIn {
  /** What was asked, with its body. */
  readonly asked: { call: string; body: any }[] = [];
  /** Answers in place of the usual ones; null: no answer at all. */
  trouble: ((call: string, body: any) => Answer | null | undefined) | null = null;
  settings: object = SETTINGS;
  state = "running";
  #server: Server = createServer();
  #port = 0;

  static async start(): Promise<StandIn> {
    const service = new StandIn();
    await service.start();
    return service;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** The bodies of requests to a path, oldest first. */
  bodies(path: string): any[] {
    return this.asked.filter(({ call }) => call === `POST ${path}`).map(({ body }) => body);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const part of request) text += part;
    const call = `${request.method} ${request.url}`;
    const body = text ? JSON.parse(text) : null;
    this.asked.push({ call, body });
    const trouble = this.trouble?.(call, body);
    if (trouble === null) return; // the client waits in vain
    const [status, answer, headers = {}] = trouble ?? this.#usual(call, body);
    response.writeHead(status, headers);
    response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
  }

  #usual(call: string, body: any): Answer {
    if (call === "POST /v1/events")
      return [202, { accepted: body.events.length, repeated: 0, unmatched: 0, apart: {} }];
    if (call.startsWith("GET ")) return [200, { settings: this.settings, version: 1, state: this.state }];
    const { impression } = body;
    return [201, { impression, documents: ["served"], arm: "interleaved", version: 1, token: `t-${impression}` }];
  }
}

/** The answer of an error. */
export function problem(status: number, code: string, field?: string): Answer {
  return [status, { error: { code, message: `problem ${code}`, ...(field ? { field } : {}) } }];
}
