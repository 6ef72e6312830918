/** Gives each visitor a lasting id in a cookie, also for the list of the first request. */

import { visitorId } from "interleaf";
import { NextResponse, type NextRequest } from "next/server";

export function proxy(request: NextRequest): NextResponse {
  const visitor = visitorId(request.headers.get("cookie"), { secure: request.nextUrl.protocol === "https:" });
  const headers = new Headers(request.headers);
  headers.set("x-visitor", visitor.id); // replaces what the browser may have sent
  const response = NextResponse.next({ request: { headers } });
  if (visitor.setCookie) response.headers.append("Set-Cookie", visitor.setCookie);
  return response;
}

export const config = { matcher: ["/", "/search", "/products/:name"] };
