#!/usr/bin/env python3
"""The ablation as a document: tables in Markdown, and a plot of acceptance over bits as SVG. Standard library only.

usage: ablation_report.py REPORT.json OUT.md OUT.svg      REPORT.json: what `lynxkv bench ablation --json` printed
"""
import json
import os
import sys
from xml.sax.saxutils import escape

DEFAULTS = {"alpha": 255, "chunk_tokens": 32, "page_tokens": 256, "meta": "f32"}
PARAMETERS = (("alpha", "The alpha-law's curvature"), ("meta", "Metadata precision"), ("chunk_tokens", "Tokens per chunk (C)"),
              ("page_tokens", "Tokens per page (P)"))
FAMILIES = (("nested", "#2563a8", "nested: linear between chunk minimum and maximum"),
            ("lynx", "#c2571a", "alpha-law (lynx, alg1)"), ("alg1", "#c2571a", None),
            ("", "#6b7280", "plain scales (int8, int4), float16"))
LABELLED = {"nested44", "nested35", "nested26", "nested224", "lynx44", "lynx35", "lynx53", "lynx62", "alg1", "alg1-clip16", "int4", "int8",
            "int8-split", "int4-token", "int4-page"}


def family(codec):
    return next(f for f in FAMILIES if codec.startswith(f[0]))


def codecs(report):
    """[(codec and parameters, {tier: row})] in the report's order."""
    found = {}
    for row in report["rows"]:
        key = (row["codec"], *(row[p] for p in DEFAULTS))
        found.setdefault(key, {})[row["tier"]] = row
    return [(dict(zip(("codec", *DEFAULTS), key)), tiers) for key, tiers in found.items()]


def changed(parameters):
    """The one parameter that differs from the default, or None."""
    return next((p for p, value in DEFAULTS.items() if parameters[p] != value), None)


def figures(row):
    p20 = "" if row["p_accept_20"] is None else f"{row['p_accept_20']:.2f}"
    return (f"{row['bits']:.2f} | {row['kl']:.4f} ± {row['kl_se']:.4f} | {row['top1']:.3f} | {row['expected_accept']:.3f} ± "
            f"{row['expected_accept_se']:.3f} | {row['accepted_prefix_mean']:.1f} ± {row['accepted_prefix_mean_se']:.1f} | "
            f"{row['p_accept_10']:.2f} | {p20}")


def table(first_column, entries):
    lines = [f"| {first_column} | tier | bits | KL, nats | same top token | E[accept] | drafts that hold | P(10) | P(20) |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, tiers in entries:
        lines += [f"| {name} | {tier} | {figures(row)} |" for tier, row in tiers.items()]
    return "\n".join(lines)


def document(report, plot):
    prefixes = sorted(set(report["prefix_tokens"]))
    parts = [f"""# Ablation: what each part and parameter of a codec is worth

Made by `./dev bench ablation` from [ablation.json](../../bench/results/ablation.json); do not edit. {report['model']}, {report['places']} places in
{len(report['texts'])} texts ({', '.join(report['texts'])}), prefixes of {', '.join(map(str, prefixes))} tokens, {report['tokens']} tokens compared and as
many drafts at each place; everything against decoding on the original KV (`lynxkv bench accept --help` says how). ± is the standard error over places:
differences within it mean nothing, and one small model is a direction, not a law. Bits are all-in and cumulative: payload, metadata and framing,
on these short prefixes, where sinks, newest tokens and headers weigh more than on long ones.

![expected acceptance over bits]({plot})

## Codecs with default parameters

{table("codec", [(p["codec"], t) for p, t in codecs(report) if changed(p) is None])}
"""]
    for parameter, title in PARAMETERS:
        entries = []
        names = sorted({p["codec"] for p, _ in codecs(report) if changed(p) == parameter})
        for name in names:
            rows = [(p, t) for p, t in codecs(report) if p["codec"] == name and changed(p) in (None, parameter)]
            if parameter != "meta":
                rows.sort(key=lambda entry: entry[0][parameter])
            entries += [(f"{name}, {p[parameter]:g}" if parameter != "meta" else f"{name}, {p[parameter]}", t) for p, t in rows]
        parts.append(f"## {title}\n\n{table('codec, value', entries)}\n")
    return "\n".join(parts)


class Plot:
    """Expected acceptance over bits; anchors filled, later tiers hollow, bars of one standard error."""
    WIDTH, HEIGHT = 860, 520
    LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52
    BITS = (1.5, 13.5)

    def __init__(self, report):
        self.rows = [(p, tier, row) for p, tiers in codecs(report) for tier, row in tiers.items() if row["bits"] <= self.BITS[1]]
        low = min(row["expected_accept"] - row["expected_accept_se"] for _, _, row in self.rows)
        self.low = max(0.0, int(low * 20) / 20)
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.WIDTH} {self.HEIGHT}" font-family="sans-serif" font-size="12">',
                    f'<rect width="{self.WIDTH}" height="{self.HEIGHT}" fill="white"/>']
        self.taken = []

    def x(self, bits):
        return self.LEFT + (bits - self.BITS[0]) / (self.BITS[1] - self.BITS[0]) * (self.WIDTH - self.LEFT - self.RIGHT)

    def y(self, accept):
        return self.HEIGHT - self.BOTTOM - (accept - self.low) / (1 - self.low) * (self.HEIGHT - self.TOP - self.BOTTOM)

    def text(self, x, y, words, anchor="start", fill="#111827", more=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{more}>{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, stroke, width=1.0):
        self.out.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"/>')

    def axes(self):
        steps = 10 if self.low < 0.8 else 20
        for i in range(int(self.low * steps + 0.5), steps + 1):
            self.line(self.LEFT, self.y(i / steps), self.WIDTH - self.RIGHT, self.y(i / steps), "#e5e7eb")
            self.text(self.LEFT - 8, self.y(i / steps) + 4, f"{i / steps:.2f}", "end")
        for bits in range(2, int(self.BITS[1]) + 1):
            self.line(self.x(bits), self.HEIGHT - self.BOTTOM, self.x(bits), self.HEIGHT - self.BOTTOM + 5, "#374151")
            self.text(self.x(bits), self.HEIGHT - self.BOTTOM + 20, str(bits), "middle")
        self.line(self.LEFT, self.HEIGHT - self.BOTTOM, self.WIDTH - self.RIGHT, self.HEIGHT - self.BOTTOM, "#374151")
        self.text((self.LEFT + self.WIDTH) / 2, self.HEIGHT - 12, "bits per KV element through this tier, all-in", "middle")
        self.text(16, self.HEIGHT / 2, "expected acceptance of a sampled draft", "middle",
                  more=f' transform="rotate(-90 16 {self.HEIGHT / 2:.0f})"')

    def legend(self):
        x = self.LEFT
        for _, colour, title in FAMILIES:
            if title:
                self.out.append(f'<circle cx="{x + 5}" cy="18" r="5" fill="{colour}"/>')
                self.text(x + 14, 22, title)
                x += 34 + 7.3 * len(title)
        self.text(self.LEFT, 42, "filled: anchor or only tier; hollow: later tiers; small: another parameter; bars: one standard error over places", fill="#4b5563")

    def label(self, x, y, words, colour):
        """Beside the point, where no other label is; none when there is no room."""
        width = 6.3 * len(words)
        for dx, dy, anchor in ((8, 4, "start"), (-8, 4, "end"), (8, 16, "start"), (-8, 16, "end"), (8, -8, "start"), (-8, -8, "end"),
                               (8, 28, "start"), (-8, 28, "end"), (8, -20, "start"), (-8, -20, "end")):
            left = x + dx - (width if anchor == "end" else 0)
            box = (left, y + dy - 10, left + width, y + dy + 2)
            inside = box[0] > self.LEFT and box[2] < self.WIDTH - self.RIGHT and box[1] > self.TOP - 8 and box[3] < self.HEIGHT - self.BOTTOM
            if inside and all(box[2] < t[0] or box[0] > t[2] or box[3] < t[1] or box[1] > t[3] for t in self.taken):
                self.taken.append(box)
                self.text(x + dx, y + dy, words, anchor, colour)
                return

    def svg(self):
        self.axes()
        self.legend()
        points = []
        for p, tier, row in self.rows:
            x, y, colour = self.x(row["bits"]), self.y(row["expected_accept"]), family(p["codec"])[1]
            plain = changed(p) is None
            first = tier == "anchor" or row["vs_full"] is None and not any(q["codec"] == p["codec"] and t == "anchor" for q, t, _ in self.rows)
            se = row["expected_accept_se"]
            self.line(x, self.y(min(1, row["expected_accept"] + se)), x, self.y(row["expected_accept"] - se), colour, 0.7)
            self.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if plain else 3}" fill="{colour if first else "white"}" stroke="{colour}"/>')
            self.taken.append((x - 5, y - 5, x + 5, y + 5))
            if plain and first and p["codec"] in LABELLED:
                points.append((x, y, p["codec"], colour))
        for point in points:
            self.label(*point)
        return "\n".join([*self.out, "</svg>", ""])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, markdown, plot = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        report = json.load(f)
    with open(markdown, "w", encoding="utf-8") as f:
        f.write(document(report, os.path.relpath(plot, os.path.dirname(markdown))))
    with open(plot, "w", encoding="utf-8") as f:
        f.write(Plot(report).svg())


if __name__ == "__main__":
    main()
