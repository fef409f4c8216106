use super::*;
use crate::figure::config::Scale;
use crate::figure::metric::Report;
use std::collections::BTreeMap;

const TEXT: &str = "title='t'\nsource='s'\napp='mf'\nargs=[]\n[quality]\npointer='/quality/rmse'\nlower_is_better=true\n\
    from={ci=2.0}\nbaseline='one'\npart=0.9\n[[runs]]\nname='one'\nargs=[]\n[[runs]]\nname='two'\nargs=[]\n\
    paper={'speed-up'='1.9'}\n[[columns]]\nheading='s'\nmetric='seconds'\n[[columns]]\nheading='speed-up'\n\
    metric='seconds'\nrelative_to='one'\n";
const PLOT: &str = "[[plots]]\nkind='lines'\nx='nodes'\ny='speed-up'\nlog=['x','y']\nlinear=true\n\
    series=[{name='ours',runs=['one','two'],x=[1,2]}]\n";

fn reports(figure: &Figure) -> Reports {
    let report = |seconds: f64| {
        let epochs: Vec<String> = [1.5, 1.1]
            .iter()
            .map(|rmse| format!(r#"{{"seconds":{seconds},"quality":{{"rmse":{}}}}}"#, rmse + seconds / 100.0))
            .collect();
        Report::parse(&format!(r#"{{"epochs":[{}]}}"#, epochs.join(","))).expect("a report")
    };
    let by_run = BTreeMap::from([
        ("one".to_owned(), [4.0, 4.2, 3.9].map(report).to_vec()),
        ("two".to_owned(), [3.0, 6.0, 2.0].map(report).to_vec()),
    ]);
    Reports { by_run, quality: figure.quality.clone(), scale: Scale::Ci }
}

#[test]
fn charts_have_the_numbers_of_the_reports() {
    let figure = Figure::parse(&format!("{TEXT}{PLOT}")).expect("a figure");
    let charts = charts(&figure, &reports(&figure));
    let [(course, _, Chart::Lines(courses)), (speed_up, _, Chart::Lines(lines))] = &charts[..] else {
        panic!("{charts:?}")
    };
    assert_eq!((&course[..], &speed_up[..]), ("course", "speed-up"));
    assert_eq!(
        courses[0].lines[1].marks[1],
        Mark { x: 6.0, y: 1.1 + 0.03, least: 1.1 + 0.02, most: 1.1 + 0.06 }
    );
    assert_eq!(courses[1].lines[0].marks[0].x, 1.0, "epochs");
    let two = &lines[0].lines[0];
    assert_eq!(two.marks[1].x, 2.0);
    assert!((two.marks[1].y - 4.0 / 3.0).abs() < 1e-9 && (two.marks[1].least - 0.7).abs() < 1e-9, "{two:?}");
    assert_eq!(two.source, [(2.0, 1.9)]);
}

#[test]
fn without_plots_the_first_column_and_ratios_are_bars() {
    let figure = Figure::parse(TEXT).expect("a figure");
    let charts = charts(&figure, &reports(&figure));
    let files: Vec<&str> = charts.iter().map(|(file, ..)| &file[..]).collect();
    assert_eq!(files, ["course", "s", "speed-up"]);
    let Chart::Bars(bars) = &charts[2].2 else { panic!("{charts:?}") };
    assert_eq!(bars.bars[1].text, "1.33");
    assert!(!bars.bars[1].slower);
}

#[test]
fn the_sources_numbers_are_read_where_they_are_numbers() {
    let read = |text: &str| {
        let figure = Figure::parse(&TEXT.replace("'1.9'", &format!("'{text}'"))).expect("a figure");
        source(&figure, "two", &figure.columns[1])
    };
    for (text, numbers) in [
        ("near 16", &[16.0][..]),
        ("1/4", &[0.25]),
        ("3.0 to 3.7", &[3.0, 3.7]),
        ("31 %", &[31.0]),
        ("1,264", &[1264.0]),
        ("below 1", &[]),
        ("4 to 10 over three tasks", &[]),
    ] {
        assert_eq!(read(text), numbers, "{text}");
    }
}

#[test]
fn pictures_are_written_as_svg_and_png() {
    let folder = crate::process::target().join("tmp-pictures");
    std::fs::create_dir_all(&folder).expect("a folder");
    for plots in ["", PLOT] {
        let figure = Figure::parse(&format!("{TEXT}{plots}")).expect("a figure");
        for picture in write(&figure, &reports(&figure), &folder).expect("pictures") {
            let svg = std::fs::read_to_string(folder.join(format!("{}.svg", picture.file))).expect("an SVG");
            assert!(svg.contains("</svg>") && svg.contains(&picture.alt), "{svg}");
            let png = std::fs::read(folder.join(format!("{}.png", picture.file))).expect("a PNG");
            assert!(png.starts_with(b"\x89PNG") && png.len() > 1000);
        }
    }
}

#[test]
fn plots_that_do_not_fit_are_named() {
    let wrong = |plot: &str| Figure::parse(&format!("{TEXT}[[plots]]\n{plot}")).expect_err("refused");
    assert!(wrong("kind='bars'\ny='x'").contains("shows no column"));
    assert!(wrong("kind='lines'\ny='s'").contains("needs series"));
    assert!(
        wrong("kind='lines'\ny='s'\nseries=[{name='a',runs=['one'],x=[1,2]}]")
            .contains("1 runs and 2 places")
    );
    assert!(
        wrong("kind='lines'\ny='s'\nseries=[{name='a',runs=['x'],x=[1]}]").contains("'x', which is no run")
    );
}
