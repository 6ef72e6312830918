import Form from "next/form";

/** Without prefetching: a list that nobody sees must not be logged. */
export default function Home() {
  return (
    <Form action="/search" prefetch={false}>
      <input name="q" aria-label="Search" />
      <button type="submit">Search</button>
    </Form>
  );
}
