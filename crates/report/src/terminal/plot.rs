//! A plot of characters with two logarithmic axes.

use crate::Style;

/// A plot being drawn.
pub(super) struct Plot {
    style: Style,
    /// Later ones lie over earlier ones.
    things: Vec<Thing>,
}

enum Thing {
    Bar(f64, f64, f64),
    Line(Vec<(f64, f64)>),
    Mark(f64, f64, char),
}

/// Columns for the numbers at the left.
const LABELS: usize = 9;
const ROWS: usize = 16;
/// A wider curve is no clearer.
const WIDEST: usize = 110;

impl Plot {
    pub(super) fn new(style: Style) -> Self {
        Self { style, things: Vec::new() }
    }

    /// A vertical bar.
    pub(super) fn bar(&mut self, x: f64, from: f64, to: f64) {
        self.things.push(Thing::Bar(x, from, to));
    }

    /// Points joined by a line of dots.
    pub(super) fn line(&mut self, points: &[(f64, f64)]) {
        self.things.push(Thing::Line(points.to_vec()));
    }

    /// One character at a point, over everything else.
    pub(super) fn mark(&mut self, x: f64, y: f64, mark: char) {
        self.things.push(Thing::Mark(x, y, mark));
    }

    /// The lines of the plot. Shape: each with its end.
    pub(super) fn rendered(&self) -> String {
        let columns = (self.style.width.min(WIDEST)).saturating_sub(LABELS + 3).max(20);
        let points: Vec<(f64, f64)> = self.things.iter().flat_map(Thing::points).collect();
        let x = Axis::of(points.iter().map(|point| point.0), columns);
        let y = Axis::of(points.iter().map(|point| point.1), ROWS).of_decades();
        let mut cells = vec![vec![' '; columns]; ROWS];
        let mut put = |at_x: f64, at_y: f64, mark: char| {
            cells[ROWS - 1 - y.place(at_y)][x.place(at_x)] = mark;
        };
        for thing in &self.things {
            match thing {
                Thing::Bar(at, from, to) => {
                    (y.place(*from)..=y.place(*to)).for_each(|row| put(*at, y.value(row), '|'))
                }
                Thing::Line(points) => dots(points, &x, columns, &mut put),
                Thing::Mark(..) => {}
            }
        }
        for thing in &self.things {
            if let Thing::Mark(at_x, at_y, mark) = thing {
                put(*at_x, *at_y, *mark);
            }
        }
        let mut text = String::new();
        for (row, line) in cells.iter().enumerate() {
            let label = y.label(ROWS - 1 - row).unwrap_or_default();
            let line: String = line.iter().collect();
            text += format!("{label:>LABELS$} |{line}").trim_end();
            text.push('\n');
        }
        text += &format!("{:>LABELS$} +{}\n", "", "-".repeat(columns));
        text += &format!("{:>LABELS$}  {}\n", "", x.scale(columns));
        text
    }
}

impl Thing {
    fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Bar(x, from, to) => vec![(*x, *from), (*x, *to)],
            Self::Line(points) => points.clone(),
            Self::Mark(x, y, _) => vec![(*x, *y)],
        }
    }
}

/// Dots between points, one a column.
fn dots(points: &[(f64, f64)], x: &Axis, columns: usize, put: &mut impl FnMut(f64, f64, char)) {
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        for column in (0..columns).filter(|column| (x.place(x0)..x.place(x1)).contains(column)) {
            let at = x.value(column).clamp(x0, x1);
            let share = (at / x0).ln() / (x1 / x0).ln();
            put(at, y0 * (y1 / y0).powf(share), '.');
        }
    }
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    cells: usize,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, cells: usize) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        let low = if low.is_finite() { low } else { 1.0 };
        Self { low, high: high.max(low * 1.001), cells }
    }

    /// From a power of ten to another.
    fn of_decades(self) -> Self {
        let low = 10f64.powf(self.low.log10().floor());
        let high = 10f64.powf(self.high.log10().ceil()).max(low * 10.0);
        Self { low, high, ..self }
    }

    fn place(&self, value: f64) -> usize {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        ((share * (self.cells - 1) as f64).round() as usize).min(self.cells - 1)
    }

    fn value(&self, cell: usize) -> f64 {
        self.low * (self.high / self.low).powf(cell as f64 / (self.cells - 1) as f64)
    }

    /// The power of ten that lies in a cell.
    fn label(&self, cell: usize) -> Option<String> {
        let powers = -9..15;
        let power = powers.map(|power| 10f64.powi(power)).find(|power| {
            (self.low * 0.999..=self.high * 1.001).contains(power) && self.place(*power) == cell
        })?;
        Some(match power {
            power if power < 1.0 => format!("{power} s"),
            power => crate::number::grouped(power as u64) + " s",
        })
    }

    /// Numbers below the axis: powers of two that leave room between each other. The last one is always there, since it
    /// says where the curve ends.
    fn scale(&self, columns: usize) -> String {
        let powers = (0..64).map(|power| 2f64.powi(power));
        let labels: Vec<(usize, String)> = powers
            .filter(|value| (self.low..=self.high).contains(value))
            .map(|value| {
                let label = crate::number::grouped(value as u64).replace(crate::number::GLUE, " ");
                (self.place(value).min(columns.saturating_sub(label.len())), label)
            })
            .collect();
        let Some((last, before)) = labels.split_last() else { return String::new() };
        let mut line = String::new();
        for (at, label) in before {
            let is_free = line.is_empty() || *at >= line.len() + ROOM;
            if is_free && at + label.len() + ROOM <= last.0 {
                line += &" ".repeat(at - line.len());
                line += label;
            }
        }
        line += &" ".repeat(last.0.saturating_sub(line.len()));
        line + &last.1
    }
}

/// Columns between two numbers of the scale.
const ROOM: usize = 3;
