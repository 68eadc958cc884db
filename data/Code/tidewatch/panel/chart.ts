/** The small chart in the harbour office: predicted curve, measured dots, and a line for now. */

export interface Sample {
  /** UTC seconds. */
  time: number;
  /** Millimetres above chart datum. */
  level: number;
}

export interface Viewport {
  width: number;
  height: number;
  from: number;
  to: number;
  lowest: number;
  highest: number;
}

/** Maps a sample to pixels; y grows downwards as everywhere on a screen. */
export function toPixel(sample: Sample, view: Viewport): [number, number] {
  const x = ((sample.time - view.from) / (view.to - view.from)) * view.width;
  const share = (sample.level - view.lowest) / (view.highest - view.lowest);
  return [x, view.height * (1 - share)];
}

/** Builds the `d` attribute of an SVG path, and lifts the pen where readings are missing. */
export function curvePath(samples: Sample[], view: Viewport, maxGapSeconds = 1350): string {
  let path = "";
  let previous: Sample | undefined;
  for (const sample of samples) {
    const [x, y] = toPixel(sample, view);
    const broken = previous === undefined || sample.time - previous.time > maxGapSeconds;
    path += `${broken ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    previous = sample;
  }
  return path;
}

/** Difference between what was measured and what was predicted, in millimetres. */
export function surge(measured: Sample, predicted: Sample[]): number | undefined {
  const after = predicted.findIndex((p) => p.time >= measured.time);
  if (after <= 0) {
    return undefined;
  }
  const [a, b] = [predicted[after - 1], predicted[after]];
  const share = (measured.time - a.time) / (b.time - a.time);
  return measured.level - (a.level + share * (b.level - a.level));
}

/** Text under the chart: green words when calm, red ones when the office should look up. */
export function caption(surgeMm: number | undefined): { text: string; colour: string } {
  if (surgeMm === undefined) {
    return { text: "no prediction for this hour", colour: "grey" };
  }
  const sign = surgeMm < 0 ? "below" : "above";
  const text = `${Math.abs(Math.round(surgeMm))} mm ${sign} the prediction`;
  return { text, colour: Math.abs(surgeMm) > 400 ? "crimson" : "seagreen" };
}
