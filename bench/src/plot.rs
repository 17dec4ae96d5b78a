//! A picture of the peers: horizontal bars on a logarithmic scale, with the spread over the rounds. Plain SVG.

use crate::report::number;
use std::fmt::Write;

const LABEL_WIDTH: f64 = 430.0;
const BAR_WIDTH: f64 = 520.0;
const VALUE_WIDTH: f64 = 150.0;
const ROW_HEIGHT: f64 = 26.0;
const TOP: f64 = 64.0;
const OURS: &str = "#1a6fb5";
const THEIRS: &str = "#9aa5b1";

#[derive(Clone, Debug)]
pub struct Plot {
    /// Part of the file's name.
    pub name: &'static str,
    pub title: String,
    pub unit: &'static str,
    pub bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
pub struct Bar {
    pub label: String,
    pub is_ours: bool,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Plot {
    pub fn svg(&self, machine: &str) -> String {
        let bars: Vec<&Bar> = self.bars.iter().filter(|bar| bar.low > 0.0).collect();
        let scale = Scale::around(&bars);
        let height = TOP + ROW_HEIGHT * bars.len() as f64 + 36.0;
        let width = LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
             <text x=\"12\" y=\"24\" font-size=\"16\">{}</text>\n\
             <text x=\"12\" y=\"44\" font-size=\"10\" fill=\"#555\">{}</text>\n",
            escaped(&self.title),
            escaped(machine)
        );
        for power in scale.low..=scale.high {
            let (x, end) = (scale.x(10_f64.powi(power)), height - 28.0);
            put(
                &mut svg,
                format_args!("<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{end}\" stroke=\"#ddd\"/>"),
            );
            let label = number(10_f64.powi(power));
            let y = height - 12.0;
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"10\">{label}</text>"
                ),
            );
        }
        for (at, bar) in bars.iter().enumerate() {
            self.bar(&mut svg, &scale, TOP + ROW_HEIGHT * at as f64, bar);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn bar(&self, svg: &mut String, scale: &Scale, top: f64, bar: &Bar) {
        let (start, end) = (LABEL_WIDTH, scale.x(bar.median));
        let (low, high, middle) = (scale.x(bar.low), scale.x(bar.high), top + ROW_HEIGHT / 2.0);
        let (color, text_y) = (if bar.is_ours { OURS } else { THEIRS }, middle + 4.5);
        let label = escaped(&bar.label);
        put(
            svg,
            format_args!("<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{label}</text>", start - 8.0),
        );
        let (y, length) = (top + 4.0, (end - start).max(1.0));
        put(
            svg,
            format_args!(
                "<rect x=\"{start}\" y=\"{y}\" width=\"{length:.1}\" height=\"18\" fill=\"{color}\"/>"
            ),
        );
        put(
            svg,
            format_args!(
                "<line x1=\"{low:.1}\" y1=\"{middle}\" x2=\"{high:.1}\" y2=\"{middle}\" stroke=\"black\" stroke-width=\"2\"/>"
            ),
        );
        let (x, value) = (high.max(end) + 6.0, number(bar.median));
        put(svg, format_args!("<text x=\"{x:.1}\" y=\"{text_y}\">{value} {}</text>", escaped(self.unit)));
    }
}

/// Whole powers of ten around all values.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn around(bars: &[&Bar]) -> Self {
        let least = bars.iter().map(|bar| bar.low).fold(f64::INFINITY, f64::min);
        let most = bars.iter().map(|bar| bar.high).fold(f64::NEG_INFINITY, f64::max);
        if !least.is_finite() || !most.is_finite() {
            return Self { low: 0, high: 1 };
        }
        let low = (least / 1.5).log10().floor() as i32;
        Self { low, high: (most.log10().ceil() as i32).max(low + 1) }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        LABEL_WIDTH + BAR_WIDTH * share.clamp(0.0, 1.0)
    }
}

fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("writing to a String cannot fail");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_inside_whole_powers_of_ten() {
        let bar = |median: f64| Bar {
            label: "a < b".into(),
            is_ours: false,
            low: median / 2.0,
            median,
            high: median * 2.0,
        };
        let bars = vec![bar(30_000.0), bar(9_000_000.0), bar(0.0)];
        let scale = Scale::around(&bars.iter().take(2).collect::<Vec<_>>());
        assert_eq!((scale.low, scale.high), (4, 8));
        assert_eq!(scale.x(1e4), LABEL_WIDTH);
        assert_eq!(scale.x(1e8), LABEL_WIDTH + BAR_WIDTH);
        let plot = Plot { name: "rates", title: "rates".into(), unit: "/s", bars };
        let svg = plot.svg("2 cores");
        assert_eq!(svg.matches("a &lt; b").count(), 2);
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
