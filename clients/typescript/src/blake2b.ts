/** BLAKE2b (RFC 7693) with 16 bytes of digest, as Python's `hashlib.blake2b(data, digest_size=16, person=...)`. */

const BLOCK_BYTES = 128;
const DIGEST_BYTES = 16;
/** The initial vector: low and high half of each word in turn. */
// prettier-ignore
const START = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
/** The order of the words of a block in each of the twelve rounds, as hexadecimal digits. */
// prettier-ignore
const ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8",
  "905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a",
  "6fe9b308c2d714a5", "a2847615fb9e3cd0", "0123456789abcdef", "ea489fd61c02b753",
].map((digits) => Array.from(digits, (digit) => 2 * parseInt(digit, 16)));
/** The four words of the state that each of the eight mixing steps of a round works on. */
// prettier-ignore
const STEPS = [
  [0, 8, 16, 24], [2, 10, 18, 26], [4, 12, 20, 28], [6, 14, 22, 30],
  [0, 10, 20, 30], [2, 12, 22, 24], [4, 14, 16, 26], [6, 8, 18, 28],
] as const;

export function blake2b(data: Uint8Array, person = ""): Uint8Array {
  const hash = START.slice();
  hash[0]! ^= 0x01010000 ^ DIGEST_BYTES;
  for (let place = 0; place < person.length; place++) {
    hash[12 + (place >> 2)]! ^= person.charCodeAt(place) << (8 * (place & 3));
  }
  const blocks = Math.max(1, Math.ceil(data.length / BLOCK_BYTES));
  for (let block = 0; block < blocks; block++) {
    const end = Math.min(data.length, (block + 1) * BLOCK_BYTES);
    const bytes = new Uint8Array(BLOCK_BYTES);
    bytes.set(data.subarray(block * BLOCK_BYTES, end));
    compress(hash, bytes, end, block === blocks - 1);
  }
  return Uint8Array.from({ length: DIGEST_BYTES }, (_, place) => hash[place >> 2]! >>> (8 * (place & 3)));
}

function compress(hash: Uint32Array, bytes: Uint8Array, count: number, isLast: boolean): void {
  const view = new DataView(bytes.buffer);
  const words = Uint32Array.from({ length: 32 }, (_, place) => view.getUint32(4 * place, true));
  const state = new Uint32Array(32);
  state.set(hash);
  state.set(START, 16);
  state[24]! ^= count;
  state[25]! ^= Math.floor(count / 0x100000000);
  if (isLast) {
    state[28] = ~state[28]!;
    state[29] = ~state[29]!;
  }
  for (const order of ORDERS) {
    STEPS.forEach(([a, b, c, d], step) => {
      mixWords(state, words, a, b, c, d, order[2 * step]!, order[2 * step + 1]!);
    });
  }
  for (let place = 0; place < 16; place++) hash[place]! ^= state[place]! ^ state[place + 16]!;
}

function mixWords(
  state: Uint32Array,
  words: Uint32Array,
  a: number,
  b: number,
  c: number,
  d: number,
  first: number,
  second: number,
): void {
  addTo(state, a, state[b]!, state[b + 1]!);
  addTo(state, a, words[first]!, words[first + 1]!);
  rotate(state, d, a, 32);
  addTo(state, c, state[d]!, state[d + 1]!);
  rotate(state, b, c, 24);
  addTo(state, a, state[b]!, state[b + 1]!);
  addTo(state, a, words[second]!, words[second + 1]!);
  rotate(state, d, a, 16);
  addTo(state, c, state[d]!, state[d + 1]!);
  rotate(state, b, c, 63);
}

function addTo(state: Uint32Array, place: number, low: number, high: number): void {
  const sum = state[place]! + low;
  state[place] = sum;
  state[place + 1] = state[place + 1]! + high + (sum > 0xffffffff ? 1 : 0);
}

/** The word at `place`, xor the word at `other`, rotated to the right. */
function rotate(state: Uint32Array, place: number, other: number, bits: number): void {
  const low = state[place]! ^ state[other]!;
  const high = state[place + 1]! ^ state[other + 1]!;
  const isSwapped = bits >= 32;
  const [upper, lower] = isSwapped ? [low, high] : [high, low];
  const rest = bits % 32;
  state[place] = rest ? (lower >>> rest) | (upper << (32 - rest)) : lower;
  state[place + 1] = rest ? (upper >>> rest) | (lower << (32 - rest)) : upper;
}
