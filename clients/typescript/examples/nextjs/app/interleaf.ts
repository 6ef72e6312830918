/** The one client of this process. */

import { Client } from "interleaf";
import { FolderSpool } from "interleaf/node";

export const SERVICE = process.env.INTERLEAF_URL ?? "http://127.0.0.1:8080";

export const client = new Client(SERVICE, {
  key: process.env.INTERLEAF_KEY ?? null,
  timeoutMs: Number(process.env.INTERLEAF_TIMEOUT_MS ?? 1000),
  spool: new FolderSpool(process.env.INTERLEAF_SPOOL ?? "spool"),
});
