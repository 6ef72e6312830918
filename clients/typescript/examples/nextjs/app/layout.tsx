import { connection } from "next/server";
import Script from "next/script";
import type { ReactNode } from "react";
import { SERVICE } from "./interleaf";

export const metadata = { title: "Shop", icons: "data:," };

/** All pages load the script once; it follows the routes of the application by itself. */
export default async function Layout({ children }: { children: ReactNode }) {
  await connection(); // the address of the service is known when the shop runs, and not when it is built
  return (
    <html lang="en">
      <body>
        {children}
        <Script src={`${SERVICE}/static/interleaf.js`} />
      </body>
    </html>
  );
}
