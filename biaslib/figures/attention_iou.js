// Attention-IoU of two flat lists of numbers >= 0, and its parts; NaN where one of the lists has no mass.
globalThis.biaslibAttentionIouParts = (a, b) => {
  const sum = (list) => list.reduce((total, value) => total + value, 0);
  const sums = [sum(a), sum(b)];
  const none = !(sums[0] > 0 && sums[1] > 0);
  const first = a.map((value) => value / sums[0]);
  const second = b.map((value) => value / sums[1]);
  const product = first.map((value, i) => value * second[i]);
  const square = first.map((value, i) => ((value + second[i]) / 2) ** 2);
  const inner = none ? NaN : sum(product);
  const norm = none ? NaN : sum(square);
  return { sums, product, square, inner, norm, score: inner / norm };
};
globalThis.biaslibAttentionIou = (a, b) => globalThis.biaslibAttentionIouParts(a, b).score;
