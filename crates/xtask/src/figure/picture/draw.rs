//! Draws charts with `plotters`, as SVG and as PNG of twice the size.
//!
//! Lines differ in colour and in marks, and bars are labelled, so that a picture can be read in grey. The
//! colours are those of Okabe and Ito, which colour-blind readers can tell apart.

use super::axis::Axis;
use super::chart::{Bars, Chart, Line, Lines, Mark, Reference};
use plotters::coord::{Shift, cartesian::Cartesian2d};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;
use std::sync::Once;

const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(140, 100, 40),
];
const GREY: RGBColor = RGBColor(170, 170, 170);
const PALE: RGBColor = RGBColor(240, 240, 240);
const DARK: RGBColor = RGBColor(60, 60, 60);

/// Where numbers are drawn over numbers.
type Plane<'a, B> = ChartContext<'a, B, Cartesian2d<Axis, Axis>>;
type Problem<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

/// Writes `place.svg` and `place.png`.
pub(super) fn write(title: &str, chart: &Chart, place: &Path) -> Result<(), String> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        for style in [FontStyle::Normal, FontStyle::Bold] {
            // It fails only for a font that is none.
            let _ = plotters::style::register_font("sans-serif", style, epaint_default_fonts::UBUNTU_LIGHT);
        }
    });
    let size = size(chart);
    let vector = place.with_extension("svg");
    let area = SVGBackend::new(&vector, size).into_drawing_area();
    draw(&area, title, chart, 1).map_err(|error| format!("{}: {error}", vector.display()))?;
    drop(area);
    let raster = place.with_extension("png");
    let area = BitMapBackend::new(&raster, (2 * size.0, 2 * size.1)).into_drawing_area();
    draw(&area, title, chart, 2).map_err(|error| format!("{}: {error}", raster.display()))
}

/// Width and height of the SVG.
fn size(chart: &Chart) -> (u32, u32) {
    match chart {
        Chart::Bars(bars) => (760, 104 + 26 * bars.bars.len() as u32),
        Chart::Lines(charts) => {
            let names = charts.first().map_or(0, |lines| lines.lines.len());
            (
                if charts.len() > 1 { 960 } else { 640 },
                404 + 20 * names.div_ceil(legend_columns(charts)) as u32,
            )
        }
    }
}

fn legend_columns(charts: &[Lines]) -> usize {
    if charts.len() > 1 { 5 } else { 3 }
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    chart: &Chart,
    scale: i32,
) -> Result<(), Problem<B>> {
    area.fill(&WHITE)?;
    let area = area.margin(8 * scale, 0, 0, 0);
    let area = area.titled(title, ("sans-serif", 18 * scale).into_font().color(&BLACK))?;
    match chart {
        Chart::Bars(bars) => draw_bars(&area, bars, scale)?,
        Chart::Lines(charts) => {
            let (_, height) = area.dim_in_pixel();
            let names: Vec<&Line> =
                charts.first().map(|lines| lines.lines.iter().collect()).unwrap_or_default();
            let columns = legend_columns(charts);
            let legend = 20 * scale * names.len().div_ceil(columns) as i32 + 6 * scale;
            let (above, below) = area.split_vertically(height as i32 - legend);
            for (part, lines) in above.split_evenly((1, charts.len())).iter().zip(charts) {
                draw_lines(part, lines, scale)?;
            }
            draw_legend(&below, &names, columns, scale)?;
        }
    }
    area.present()
}

fn draw_bars<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    bars: &Bars,
    scale: i32,
) -> Result<(), Problem<B>> {
    let count = bars.bars.len();
    let names: Vec<String> = bars.bars.iter().rev().map(|bar| bar.name.clone()).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as i32;
    let numbers =
        bars.bars.iter().flat_map(|bar| [bar.value, bar.most].into_iter().chain(bar.source.iter().copied()));
    let axis = Axis::fit(numbers, bars.log, true);
    let mut chart = ChartBuilder::on(area)
        .margin(8 * scale)
        .margin_right(76 * scale)
        .x_label_area_size(38 * scale)
        .y_label_area_size((7 * longest.min(36) + 16) * scale)
        .build_cartesian_2d(axis.clone(), Axis::names(names))?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE)
        .x_desc(&*bars.label)
        .label_style(("sans-serif", 13 * scale).into_font())
        .axis_desc_style(("sans-serif", 14 * scale).into_font())
        .draw()?;
    let label = ("sans-serif", 13 * scale).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (at, bar) in bars.bars.iter().enumerate() {
        let middle = (count - 1 - at) as f64 + 0.5;
        let colour = if bar.slower { GREY } else { COLOURS[0] };
        let begin = bars.base.filter(|_| bars.log).unwrap_or(axis.from().max(0.0));
        chart.draw_series([Rectangle::new(
            [(begin, middle - 0.33), (bar.value, middle + 0.33)],
            colour.filled(),
        )])?;
        draw_range(&mut chart, (bar.least, middle), (bar.most, middle), scale)?;
        let source: Vec<(f64, f64)> = bar.source.iter().map(|source| (*source, middle)).collect();
        draw_source(&mut chart, &source, DARK, scale)?;
        let end = bar.source.iter().fold(bar.value.max(bar.most).max(begin), |end, source| end.max(*source));
        chart.draw_series([
            EmptyElement::at((end, middle)) + Text::new(bar.text.clone(), (11 * scale, 0), label.clone())
        ])?;
    }
    Ok(())
}

fn draw_lines<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    lines: &Lines,
    scale: i32,
) -> Result<(), Problem<B>> {
    let marks = || lines.lines.iter().flat_map(|line| &line.marks);
    let source = || lines.lines.iter().flat_map(|line| &line.source);
    let levels = lines.references.iter().filter_map(|reference| match reference {
        Reference::Level(level, _) => Some(*level),
        Reference::Linear => None,
    });
    let mut x = Axis::fit(marks().map(|mark| mark.x).chain(source().map(|at| at.0)), lines.log.0, false);
    if lines.few {
        let mut places: Vec<f64> = marks().map(|mark| mark.x).chain(source().map(|at| at.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        x = x.label(places);
    }
    let heights =
        marks().flat_map(|mark| [mark.least, mark.most]).chain(source().map(|at| at.1)).chain(levels);
    let linear = lines.references.contains(&Reference::Linear);
    let ideal = marks().map(|mark| mark.x).filter(|_| linear);
    let y = Axis::fit(heights.chain(ideal), lines.log.1, false);
    let mut chart = ChartBuilder::on(area)
        .margin(8 * scale)
        .margin_right(16 * scale)
        .x_label_area_size(38 * scale)
        .y_label_area_size(58 * scale)
        .build_cartesian_2d(x.clone(), y.clone())?;
    if lines.shade_below_one && y.from() < 1.0 {
        chart.draw_series([Rectangle::new(
            [(x.from(), y.from()), (x.to(), 1f64.min(y.to()))],
            PALE.filled(),
        )])?;
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(&*lines.x_label)
        .y_desc(&*lines.y_label)
        .label_style(("sans-serif", 13 * scale).into_font())
        .axis_desc_style(("sans-serif", 14 * scale).into_font())
        .draw()?;
    let thin = ShapeStyle { color: DARK.to_rgba(), filled: false, stroke_width: scale as u32 };
    for reference in &lines.references {
        match reference {
            Reference::Linear => {
                let ends = [x.from().max(y.from()), x.to().min(y.to())].map(|end| (end, end));
                chart.draw_series(DashedLineSeries::new(ends, 4 * scale, 4 * scale, thin))?;
            }
            Reference::Level(level, meaning) => {
                let ends = [(x.from(), *level), (x.to(), *level)];
                chart.draw_series(DashedLineSeries::new(ends, 4 * scale, 4 * scale, thin))?;
                let style = ("sans-serif", 12 * scale).into_font().color(&DARK);
                let style = style.pos(Pos::new(HPos::Right, VPos::Bottom));
                chart.draw_series([EmptyElement::at((x.to(), *level))
                    + Text::new(meaning.clone(), (-4 * scale, -2 * scale), style)])?;
            }
        }
    }
    for (at, line) in lines.lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let stroke = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 2 * scale as u32 };
        let path: Vec<(f64, f64)> = line.marks.iter().map(|mark| (mark.x, mark.y)).collect();
        // With few lines, each is solid: the marks tell them apart.
        if at < COLOURS.len() {
            chart.draw_series(LineSeries::new(path.clone(), stroke))?;
        } else {
            chart.draw_series(DashedLineSeries::new(path.clone(), 6 * scale, 4 * scale, stroke))?;
        }
        for Mark { x, least, most, .. } in &line.marks {
            draw_range(&mut chart, (*x, *least), (*x, *most), scale)?;
        }
        let corners = outline(at, scale);
        let mark = |point| EmptyElement::at(point) + Polygon::new(corners.clone(), colour.filled());
        chart.draw_series(path.into_iter().map(mark))?;
        draw_source(&mut chart, &line.source, colour, scale)?;
    }
    Ok(())
}

fn draw_legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    names: &[&Line],
    columns: usize,
    scale: i32,
) -> Result<(), Problem<B>> {
    let (width, _) = area.dim_in_pixel();
    let width = width as i32 - 20 * scale;
    let style = ("sans-serif", 13 * scale).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    for (at, line) in names.iter().enumerate() {
        let (column, row) = ((at % columns) as i32, (at / columns) as i32);
        let (x, y) = (20 * scale + column * width / columns as i32, 8 * scale + row * 20 * scale);
        let colour = COLOURS[at % COLOURS.len()];
        let stroke = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 2 * scale as u32 };
        area.draw(&PathElement::new(vec![(x, y), (x + 24 * scale, y)], stroke))?;
        let corners: Vec<(i32, i32)> =
            outline(at, scale).into_iter().map(|(dx, dy)| (x + 12 * scale + dx, y + dy)).collect();
        area.draw(&Polygon::new(corners, colour.filled()))?;
        let hollow = if line.source.is_empty() { "" } else { " (hollow: source)" };
        area.draw(&Text::new(format!("{}{hollow}", line.name), (x + 30 * scale, y), style.clone()))?;
    }
    Ok(())
}

/// The range of all seeds, unless they are equal.
fn draw_range<B: DrawingBackend>(
    chart: &mut Plane<'_, B>,
    least: (f64, f64),
    most: (f64, f64),
    scale: i32,
) -> Result<(), Problem<B>> {
    if least == most || !least.0.is_finite() || !most.0.is_finite() {
        return Ok(());
    }
    let stroke = ShapeStyle { color: DARK.to_rgba(), filled: false, stroke_width: scale as u32 };
    let cap = if least.0 == most.0 { (4 * scale, 0) } else { (0, 4 * scale) };
    chart.draw_series([PathElement::new(vec![least, most], stroke)])?;
    let across = |at| EmptyElement::at(at) + PathElement::new(vec![(-cap.0, -cap.1), cap], stroke);
    chart.draw_series([least, most].map(across))?;
    Ok(())
}

/// The outline of the mark of a line: a circle, a square, a triangle, a cross or a diamond.
fn outline(at: usize, scale: i32) -> Vec<(i32, i32)> {
    let r = 4 * scale;
    let wide = r + scale;
    let arm = scale.max(1);
    match at % 5 {
        0 => (0..24)
            .map(|step| f64::from(step) * std::f64::consts::TAU / 24.0)
            .map(|angle| (angle.cos() * f64::from(r), angle.sin() * f64::from(r)))
            .map(|(x, y)| (x.round() as i32, y.round() as i32))
            .collect(),
        1 => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
        2 => vec![(0, -wide), (wide, r), (-wide, r)],
        3 => vec![
            (-arm, -wide),
            (arm, -wide),
            (arm, -arm),
            (wide, -arm),
            (wide, arm),
            (arm, arm),
            (arm, wide),
            (-arm, wide),
            (-arm, arm),
            (-wide, arm),
            (-wide, -arm),
            (-arm, -arm),
        ],
        _ => vec![(0, -wide), (wide, 0), (0, wide), (-wide, 0)],
    }
}

/// The source's numbers: hollow diamonds.
fn draw_source<B: DrawingBackend>(
    chart: &mut Plane<'_, B>,
    points: &[(f64, f64)],
    colour: RGBColor,
    scale: i32,
) -> Result<(), Problem<B>> {
    let r = 6 * scale;
    let corners = vec![(0, -r), (r, 0), (0, r), (-r, 0), (0, -r)];
    let stroke = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: 2 * scale as u32 };
    let diamond = |at: &(f64, f64)| EmptyElement::at(*at) + PathElement::new(corners.clone(), stroke);
    chart.draw_series(points.iter().map(diamond))?;
    Ok(())
}
