//! The pictures of a figure: from its reports to charts, which [`draw`] draws.
//!
//! A figure with a quality has its course over time and over epochs. The file of a figure names its other
//! charts; without any, the first column and each column of ratios is shown as bars.

pub(crate) mod axis;
mod chart;
mod draw;

use super::config::{Column, Figure, Plot, PlotKind};
use super::metric::{Point, Reports, Spread};
use chart::{Bar, Bars, Chart, Line, Lines, Mark, Reference};
use std::path::Path;

/// A picture that was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    /// Its file, without ending, in the folder of the page.
    pub(crate) file: String,
    /// For readers who cannot see it.
    pub(crate) alt: String,
}

/// Draws all charts of a figure, as SVG and as PNG, into `folder`.
pub(crate) fn write(figure: &Figure, reports: &Reports, folder: &Path) -> Result<Vec<Picture>, String> {
    // Pictures of an earlier version of the figure must not be taken for this one's.
    for entry in
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten()
    {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "svg" || ending == "png") {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    let mut pictures = Vec::new();
    for (file, title, chart) in charts(figure, reports) {
        draw::write(&title, &chart, &folder.join(&file))?;
        pictures.push(Picture { file, alt: title });
    }
    Ok(pictures)
}

/// File, title and content of each chart.
fn charts(figure: &Figure, reports: &Reports) -> Vec<(String, String, Chart)> {
    let mut charts = Vec::new();
    if let Some(lines) = courses(figure, reports) {
        let several = lines.len() > 1;
        let title = if several { "Quality over time and over epochs" } else { "Quality after an epoch" };
        charts.push(("course".to_owned(), title.to_owned(), Chart::Lines(lines)));
    }
    let by_default: Vec<Plot> = figure
        .columns
        .iter()
        .enumerate()
        .filter(|(at, column)| *at == 0 || column.relative_to.is_some())
        .map(|(_, column)| Plot::bars(&column.heading))
        .collect();
    let plots = if figure.plots.is_empty() { &by_default } else { &figure.plots };
    for plot in plots {
        let Some(column) = figure.columns.iter().find(|column| column.heading == plot.y) else { continue };
        let chart = match plot.kind {
            PlotKind::Bars => Chart::Bars(bars(figure, reports, plot, column)),
            PlotKind::Lines => Chart::Lines(vec![lines(figure, reports, plot, column)]),
        };
        let title = plot.title.clone().unwrap_or_else(|| capitalised(&column.heading));
        charts.push((file_name(&title), title, chart));
    }
    charts
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Letters and digits of a title, for the name of a file.
pub(crate) fn file_name(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-")
}

/// A column of a run, as its table shows it.
fn number(reports: &Reports, column: &Column, run: &str) -> Option<Spread> {
    reports.column(column, run)?.ok()
}

/// The source's number of a run, or both ends of its range; none if it is in words.
fn source(figure: &Figure, run: &str, column: &Column) -> Vec<f64> {
    let run = figure.runs.iter().find(|known| known.name == run);
    let Some(text) = run.and_then(|run| run.paper.get(&column.heading)) else { return Vec::new() };
    let text = ["near ", "about ", "~"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    let number = |text: &str| {
        let text = text.trim_end_matches(" %").replace(',', "");
        match text.split_once('/') {
            Some((over, under)) => Some(over.parse::<f64>().ok()? / under.parse::<f64>().ok()?),
            None => text.parse().ok(),
        }
    };
    text.split(" to ").map(number).collect::<Option<Vec<f64>>>().unwrap_or_default()
}

fn ends(spread: &Spread) -> (f64, f64) {
    let (least, most) = spread.ends();
    (least.value(), most.value())
}

fn bars(figure: &Figure, reports: &Reports, plot: &Plot, column: &Column) -> Bars {
    let bars: Vec<Bar> = figure
        .runs
        .iter()
        .filter_map(|run| {
            let spread = number(reports, column, &run.name)?;
            let (least, most) = ends(&spread);
            let value = spread.median().value();
            Some(Bar {
                name: run.name.clone(),
                value,
                least,
                most,
                text: spread.median_bounds().to_string(),
                source: source(figure, &run.name, column),
                slower: column.relative_to.is_some() && value < 1.0,
            })
        })
        .filter(|bar| bar.value.is_finite())
        .collect();
    let hollow = if bars.iter().any(|bar| !bar.source.is_empty()) { " (hollow: source)" } else { "" };
    let label = format!("{}{hollow}", column.heading);
    let base = column.relative_to.as_ref().map(|_| 1.0);
    Bars { label, log: plot.log.contains(&super::config::PlotAxis::Y), base, bars }
}

fn lines(figure: &Figure, reports: &Reports, plot: &Plot, column: &Column) -> Lines {
    let of = |series: &super::config::Series| {
        let mut line = Line { name: series.name.clone(), ..Line::default() };
        for (run, &x) in series.runs.iter().zip(&series.x) {
            if let Some(spread) = number(reports, column, run) {
                let (least, most) = ends(&spread);
                line.marks.push(Mark { x, y: spread.median().value(), least, most });
            }
            line.source.extend(source(figure, run, column).into_iter().map(|y| (x, y)));
        }
        line
    };
    let lines = plot.series.iter().map(of).filter(|line| !line.marks.is_empty()).collect();
    let speed_up = column.relative_to.is_some();
    Lines {
        x_label: plot.x.clone().unwrap_or_default(),
        y_label: column.heading.clone(),
        log: (plot.log.contains(&super::config::PlotAxis::X), plot.log.contains(&super::config::PlotAxis::Y)),
        few: true,
        lines,
        references: if plot.linear { vec![Reference::Linear] } else { Vec::new() },
        shade_below_one: speed_up,
    }
}

/// Quality over time and, if a run has several, over epochs: the medians of all seeds, with the least and
/// the greatest quality.
fn courses(figure: &Figure, reports: &Reports) -> Option<Vec<Lines>> {
    let quality = figure.quality.as_ref()?;
    let untrained = quality.from.get(&reports.scale).copied();
    let courses: Vec<(String, Vec<Vec<Point>>)> = figure
        .runs
        .iter()
        .map(|run| (run.name.clone(), reports.courses(&run.name)))
        .filter(|(_, seeds)| !seeds.is_empty())
        .collect();
    if courses.is_empty() {
        return None;
    }
    let lines = |x: &dyn Fn(&Point) -> f64| {
        courses
            .iter()
            .map(|(name, seeds)| {
                let length = seeds.iter().map(Vec::len).min().unwrap_or(0);
                let marks = (0..length).map(|at| {
                    let sorted = |of: &dyn Fn(&Point) -> f64| {
                        let mut all: Vec<f64> = seeds.iter().map(|course| of(&course[at])).collect();
                        all.sort_by(f64::total_cmp);
                        all
                    };
                    let (xs, ys) = (sorted(x), sorted(&|point| point.quality));
                    let middle = (ys.len() - 1) / 2;
                    Mark { x: xs[middle], y: ys[middle], least: ys[0], most: ys[ys.len() - 1] }
                });
                Line { name: name.clone(), marks: marks.collect(), source: Vec::new() }
            })
            .collect::<Vec<Line>>()
    };
    let over_time = lines(&|point| point.seconds);
    let last = |line: &Line| line.marks.last().map_or(1.0, |mark| mark.x);
    let (least, most) = over_time
        .iter()
        .map(last)
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), x| (least.min(x), most.max(x)));
    let label = quality
        .label
        .clone()
        .unwrap_or_else(|| quality.pointer.rsplit('/').next().unwrap_or_default().replace('_', " "));
    let mut references = Vec::new();
    let best = courses.iter().find(|(name, _)| *name == quality.baseline).map(|(_, seeds)| {
        let all = seeds[0].iter().map(|point| point.quality);
        if quality.lower_is_better { all.fold(f64::INFINITY, f64::min) } else { all.fold(0.0, f64::max) }
    });
    if let (Some(from), Some(best)) = (untrained, best) {
        references.push(Reference::Level(from, "untrained".to_owned()));
        references.push(Reference::Level(from + quality.part * (best - from), "good enough".to_owned()));
    }
    let chart = |x_label: &str, log: bool, few: bool, lines: Vec<Line>| Lines {
        x_label: x_label.to_owned(),
        y_label: label.clone(),
        log: (log, false),
        few,
        lines,
        references: references.clone(),
        shade_below_one: false,
    };
    let epochs = lines(&|point| point.epoch as f64);
    let longest = epochs.iter().map(|line| line.marks.len()).max().unwrap_or(0);
    let mut charts = vec![chart("seconds", most > 6.0 * least, false, over_time)];
    if longest > 1 {
        charts.push(chart("epochs", false, longest < 12, epochs));
    }
    Some(charts)
}

#[cfg(test)]
mod tests;
