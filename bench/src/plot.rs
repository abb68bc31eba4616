//! Reports as a picture: rates beside those of another server, and processor times for one operation.

use std::path::{Path, PathBuf};

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    Outcome,
    report::{Figure, Line, Report, Unit},
};

/// Size of the picture, and of one row in it, pixels.
const WIDTH: u32 = 960;
const ROW: u32 = 26;

/// Pixels for the names of rows, and for the texts above and below the rows of a panel.
const NAMES: u32 = 330;
const AROUND: u32 = 110;

const OURS: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const THEIRS: RGBColor = RGBColor(0xc9, 0x6a, 0x1b);

/// Two figures of one line with the same unit: Mortise's, and the one beside it.
struct Row {
    name: String,
    ours: f64,
    theirs: f64,
}

/// Returns a line's first two figures of a unit; `None` for a line that compares nothing in it.
fn row(line: &Line, unit: Unit) -> Option<Row> {
    let mut figures = line.figures.iter().filter(|figure| figure.unit == unit);
    let (ours, theirs) = (figures.next()?, figures.next()?);
    let usable = |figure: &Figure| figure.value.is_finite() && figure.value > 0.0;
    if !usable(ours) || !usable(theirs) {
        return None;
    }
    let clients = match line.clients? {
        1 => "1 client".to_owned(),
        many => format!("{many} clients"),
    };
    let name = format!("{}, {clients}, beside {}", line.work, theirs.subject);
    Some(Row { name, ours: ours.value, theirs: theirs.value })
}

/// Draws reports into one file.
pub(crate) fn draw(files: &[PathBuf], out: &Path) -> Outcome<()> {
    let reports = files.iter().map(|file| Report::read(file)).collect::<Outcome<Vec<_>>>()?;
    let rows = |unit| {
        let lines = reports.iter().flat_map(|report| &report.lines);
        lines.filter_map(|line| row(line, unit)).collect::<Vec<_>>()
    };
    let (rates, costs) = (rows(Unit::PerSecond), rows(Unit::ProcessorMicroseconds));
    let (Some(first), false) = (reports.first(), rates.is_empty() || costs.is_empty()) else {
        return Err(
            "the reports compare no two servers by rate and processor time; use those of calls, lists or etcd".into()
        );
    };
    let heights = [&rates, &costs].map(|rows| rows.len() as u32 * ROW + AROUND);
    let foot = 30;
    let height = heights.iter().sum::<u32>() + foot;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let [of_rates, of_costs] = heights;
        let (above, below) = root.split_vertically(of_rates);
        let (middle, _) = below.split_vertically(of_costs);
        rates_panel(&above, &rates)?;
        costs_panel(&middle, &costs)?;
        let machine = &first.machine;
        let machine = format!(
            "{} × {}, {} MiB of memory, Linux {}; clients on the same machine",
            machine.processors, machine.processor, machine.memory_mib, machine.kernel
        );
        root.draw(&Text::new(
            machine,
            (16, height as i32 - 22),
            ("sans-serif", 13).into_font().color(&BLACK.mix(0.6)),
        ))?;
        root.present()?;
    }
    Ok(std::fs::write(out, text).map_err(|e| format!("--out: cannot write {}: {e}", out.display()))?)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws rates as multiples of those beside them.
fn rates_panel(panel: &Panel<'_>, rows: &[Row]) -> Outcome<()> {
    let multiple = |row: &Row| row.ours / row.theirs;
    let most = rows.iter().map(multiple).fold(1.0, f64::max) * 1.2;
    let mut chart = ChartBuilder::on(panel)
        .caption("Mortise's rate, as a multiple of the rate beside it", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..most, rows.len() as f64..0.0)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().y_labels(0).x_labels(8).draw()?;
    let area = chart.plotting_area();
    for (number, row) in rows.iter().enumerate() {
        let (top, value) = (number as f64, multiple(row));
        area.draw(&Rectangle::new([(0.0, top + 0.2), (value, top + 0.8)], OURS.filled()))?;
        area.draw(&Text::new(format!("{value:.2}"), (value + most * 0.008, top + 0.5), label(HPos::Left)))?;
        area.draw(&(EmptyElement::at((0.0, top + 0.5)) + Text::new(row.name.clone(), (-8, 0), label(HPos::Right))))?;
    }
    Ok(area.draw(&PathElement::new([(1.0, 0.0), (1.0, rows.len() as f64)], THEIRS.stroke_width(2)))?)
}

/// Draws processor times for one operation, on a logarithmic scale.
fn costs_panel(panel: &Panel<'_>, rows: &[Row]) -> Outcome<()> {
    let all = || rows.iter().flat_map(|row| [row.ours, row.theirs]);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(panel)
        .caption(
            "Processor time of the server for one operation, µs: Mortise, and the server beside it",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((least * 0.7..most * 12.0).log_scale(), rows.len() as f64..0.0)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().y_labels(0).x_labels(8).draw()?;
    let area = chart.plotting_area();
    for (number, row) in rows.iter().enumerate() {
        let middle = number as f64 + 0.5;
        area.draw(&PathElement::new([(row.ours, middle), (row.theirs, middle)], BLACK.mix(0.3)))?;
        area.draw(&Circle::new((row.theirs, middle), 5, THEIRS.filled()))?;
        area.draw(&Circle::new((row.ours, middle), 5, OURS.filled()))?;
        let values = format!("{:.1} and {:.1}", row.ours, row.theirs);
        let right =
            EmptyElement::at((row.ours.max(row.theirs), middle)) + Text::new(values, (10, 0), label(HPos::Left));
        area.draw(&right)?;
        area.draw(
            &(EmptyElement::at((least * 0.7, middle)) + Text::new(row.name.clone(), (-8, 0), label(HPos::Right))),
        )?;
    }
    Ok(())
}

/// Style of the names and values of rows.
fn label(at: HPos) -> TextStyle<'static> {
    ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(at, VPos::Center))
}
