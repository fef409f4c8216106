// What the page keeps of a running cluster, without a browser: hours in a moment.
import assert from "node:assert/strict";
import { bundled } from "./bundle.mjs";

const { Kept } = await bundled("kept.ts");

/** A cluster of two nodes that was heard every second; of its series, one is a counter and one is not. */
function heard(seconds, lost = [Infinity, Infinity]) {
  const kept = new Kept();
  for (let second = 0; second < seconds; second += 1) {
    const nodes = [0, 1].filter((node) => second < lost[node]);
    kept.add({ series: ["examples", "held"], nodes: nodes.map((node) => ({ node, at_ms: [second * 1000 + node], values: [[second * 10], [7]] })) });
  }
  return kept;
}

export const tests = {
  "live charts go on when any node is lost after a long time"() {
    for (const lost of [[2000, Infinity], [Infinity, 2000]]) {
      const kept = heard(2100, lost);
      const x = kept.times();
      assert.equal(Math.floor(x.at(-1) / 1000), 2099, "the newest time");
      assert.equal(x.length, 900);
      assert.ok(Math.abs(kept.rate(0, x).at(-1) - 10) < 0.1, "the rate of the node that is left");
      assert.ok(Math.abs(kept.rate(0, x).at(-500) - 20) < 0.1, "the rate of both before");
      assert.equal(kept.summed(1, x).at(-1), 7);
    }
  },

  "live totals keep what a lost node has counted"() {
    const [both, one] = [heard(100), heard(100, [50, Infinity])];
    assert.equal(both.total(0), 990 + 990);
    assert.equal(one.total(0), 490 + 990);
    assert.equal(one.highest(0), 990);
    assert.equal(new Kept().total(0), null);
  },
};
