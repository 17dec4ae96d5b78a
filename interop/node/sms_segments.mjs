// sms-segments-calculator counts the segments of a seeded corpus; ours must say the same.
//
// It keeps what a reader sees as one character (a flag, a family) in one segment; networks do not, and neither do we. So with
// such clusters it may count more, never fewer; without them both are equal.

import calculator from "sms-segments-calculator";
import { check } from "./sandbox.mjs";
import { dice, verdicts } from "./verdicts.mjs";

const SEED = 20261116;
const TEXTS = 2_000;
const GSM = [..."@£$¥èéùìòÇ\nØøÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0129:;<=>?¡AZÄÖÑÜ§¿azäöñüà"];
const EXTENSION = [..."^{}\\[~]|€"];
const OTHER = [..."яЖ你好ç’“”—…`"];
const PAIRS = [..."😀🎉🚀𝒳"];
const CLUSTERS = ["👨‍👩‍👧", "🇦🇹", "👍🏽", "e\u0301"];

const random = dice(SEED);
const alphabets = [GSM, [...GSM, ...EXTENSION], [...GSM, ...OTHER], [...GSM, ...EXTENSION, ...OTHER, ...PAIRS]];
const lengths = [0, 1, 33, 35, 36, 66, 67, 69, 70, 71, 80, 81, 134, 135, 152, 153, 154, 159, 160, 161, 306, 307, 459, 460];
const ours = verdicts();

let different = [];
for (let no = 0; no < TEXTS; no += 1) {
  const length = no % 2 ? random.pick(lengths) : random.below(500);
  const text = random.text(random.pick(alphabets), length);
  const theirs = new calculator.SegmentedMessage(text);
  const found = await ours.ask({ ask: "segments", text });
  const expected = [theirs.encodingName, theirs.segments.length];
  if (found.encoding !== expected[0] || found.segments !== expected[1]) different.push({ text, found, expected });
}
check(`${TEXTS} texts have the same encoding and segments (seed ${SEED})`, different.slice(0, 3), []);

different = [];
for (let no = 0; no < 500; no += 1) {
  const text = random.text([...GSM, ...CLUSTERS, ...PAIRS], random.below(200));
  const theirs = new calculator.SegmentedMessage(text);
  const found = await ours.ask({ ask: "segments", text });
  if (found.encoding !== theirs.encodingName || found.segments > theirs.segments.length) different.push({ text, found });
}
check("500 texts with clusters never count more than theirs", different.slice(0, 3), []);

for (const [text, expected] of [
  ["a".repeat(160), 1],
  ["a".repeat(161), 2],
  ["€".repeat(80), 1],
  ["€".repeat(81), 2],
  ["😀".repeat(35), 1],
  ["😀".repeat(36), 2],
  [`${"я".repeat(66)}😀${"я".repeat(10)}`, 2],
]) {
  const theirs = new calculator.SegmentedMessage(text).segments.length;
  const found = (await ours.ask({ ask: "segments", text })).segments;
  check(`${[...text].length} of ${[...text][0]} are ${expected}`, [theirs, found], [expected, expected]);
}
ours.end();
