import { headers } from "next/headers";
import Link from "next/link";
import { rankings } from "../catalogue";
import { client } from "../interleaf";

/** The mixed list. The attributes of its element tell the script which list it is. */
export default async function Search({ searchParams }: { searchParams: Promise<{ q?: string }> }) {
  const query = String((await searchParams).q ?? "");
  const incoming = await headers();
  const answer = await client.interleave("shop", rankings(query), {
    unit: incoming.get("x-visitor"),
    userAgent: incoming.get("user-agent"),
    query,
    k: 5,
  });
  return (
    <ol data-interleaf-impression={answer.impression ?? ""} data-interleaf-token={answer.token ?? ""}>
      {answer.documents.map((product, place) => (
        <li key={product} data-interleaf-rank={place + 1}>
          <Link href={`/products/${encodeURIComponent(product)}`}>{product}</Link>
        </li>
      ))}
    </ol>
  );
}
