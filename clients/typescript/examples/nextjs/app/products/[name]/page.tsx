export default async function Product({ params }: { params: Promise<{ name: string }> }) {
  return <h1>{decodeURIComponent((await params).name)}</h1>;
}
