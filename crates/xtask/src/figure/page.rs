//! Pages: one in Markdown for each figure, with its pictures, its table and its claims, and an index of them
//! in HTML and in Markdown.

use super::claim::{JudgedClaim, Outcome};
use super::config::Figure;
use super::metric::Reports;
use super::picture::{self, Picture};
use super::traced::Traced;
use super::{runs, table};
use std::fmt::Write;
use std::path::Path;

/// A figure that was judged, as the index shows it.
pub(crate) struct Page {
    pub(crate) name: String,
    title: String,
    source: String,
    pictures: Vec<Picture>,
    pub(crate) claims: Vec<JudgedClaim>,
}

impl Page {
    /// The files of its pictures, without endings.
    pub(crate) fn pictures(&self) -> impl Iterator<Item = &str> {
        self.pictures.iter().map(|picture| &*picture.file)
    }
}

/// How many claims had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) hold: usize,
    /// Of those that hold, how many are about numbers that something was fitted to.
    pub(crate) fitted: usize,
    pub(crate) deviate: usize,
    pub(crate) broken: usize,
    pub(crate) not_judged: usize,
}

impl Tally {
    /// Counts claims.
    pub(crate) fn of<'a>(claims: impl Iterator<Item = &'a JudgedClaim>) -> Self {
        claims.fold(Self::default(), |mut tally, claim| {
            match claim.outcome() {
                Some(Outcome::Holds) => {
                    tally.hold += 1;
                    tally.fitted += usize::from(claim.fitted());
                }
                Some(Outcome::Deviates) => tally.deviate += 1,
                Some(Outcome::Broken) => tally.broken += 1,
                None => tally.not_judged += 1,
            }
            tally
        })
    }

    /// What [`Tally::words`] of it is.
    fn parse(words: &str) -> Option<Self> {
        let mut tally = Self::default();
        for part in words.split(", ").filter(|part| *part != "no claims") {
            let (count, what) = part.split_once(' ')?;
            let count = count.parse().ok()?;
            match what.split_once(" (").unwrap_or((what, "")) {
                ("hold", fitted) => {
                    tally.hold = count;
                    let fitted = fitted.strip_suffix(" fitted)");
                    tally.fitted = fitted.map_or(Some(0), |fitted| fitted.parse().ok())?;
                }
                ("deviate", _) => tally.deviate = count,
                ("broken", _) => tally.broken = count,
                ("not judged", _) => tally.not_judged = count,
                _ => return None,
            }
        }
        Some(tally)
    }

    /// The claims of both.
    fn and(self, other: Self) -> Self {
        Self {
            hold: self.hold + other.hold,
            fitted: self.fitted + other.fitted,
            deviate: self.deviate + other.deviate,
            broken: self.broken + other.broken,
            not_judged: self.not_judged + other.not_judged,
        }
    }

    /// In words, without what did not occur.
    pub(crate) fn words(self) -> String {
        let fitted = if self.fitted > 0 { format!(" ({} fitted)", self.fitted) } else { String::new() };
        let parts = [
            (self.hold, format!("{} hold{fitted}", self.hold)),
            (self.deviate, format!("{} deviate", self.deviate)),
            (self.broken, format!("{} broken", self.broken)),
            (self.not_judged, format!("{} not judged", self.not_judged)),
        ];
        let words: Vec<String> = parts.into_iter().filter(|part| part.0 > 0).map(|part| part.1).collect();
        if words.is_empty() { "no claims".to_owned() } else { words.join(", ") }
    }
}

/// Writes the page of a figure, its pictures and its numbers into `folder`.
pub(crate) fn write(
    name: &str,
    figure: &Figure,
    reports: &Reports,
    claims: Vec<JudgedClaim>,
    command: &str,
    folder: &Path,
) -> Result<Page, String> {
    let mut pictures = picture::write(figure, reports, folder)?;
    for of_run in figure.pictures.chunk_by(|a, b| a.run == b.run) {
        let run = figure.runs.iter().find(|run| run.name == of_run[0].run);
        let Some((name, traced)) = run.and_then(|run| Some((&run.name, run.trace.as_ref()?))) else {
            continue;
        };
        if reports.by_run.contains_key(name) {
            let read = Traced::read(&runs::trace_of(&runs::report_of(&folder.join("reports"), name, 1)))?;
            for picture in of_run {
                pictures.push(read.draw(&traced.range, picture, folder)?);
            }
        }
    }
    let Figure { title, source, notes, .. } = figure;
    let mut text = format!("# {name}\n\n{title}. Source: {source}.\n\n");
    for Picture { file, alt } in &pictures {
        let _ = writeln!(text, "![{alt}]({file}.svg)\n");
    }
    let _ = writeln!(text, "{}\n", table::render(figure, reports));
    text.push_str("Numbers of the source are in brackets; of several seeds, medians [least, greatest]. ");
    text.push_str("[numbers.csv](numbers.csv) has all numbers.\n");
    notes.iter().for_each(|note| {
        let _ = writeln!(text, "\n{note}");
    });
    if !claims.is_empty() {
        let _ = writeln!(text, "\n## Claims: {}\n", Tally::of(claims.iter()).words());
        claims.iter().for_each(|claim| text.push_str(&item(claim)));
    }
    let _ = writeln!(text, "\n## Command\n\n```\n{command}\n```");
    let save = |file: &str, text: &str| {
        let path = folder.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    save("README.md", &text)?;
    save("numbers.csv", &table::csv(figure, reports))?;
    Ok(Page { name: name.to_owned(), title: title.clone(), source: source.clone(), pictures, claims })
}

/// A claim as an item of a list.
fn item(claim: &JudgedClaim) -> String {
    let word = claim.outcome().map_or("not judged", Outcome::word);
    let reason =
        claim.reason().filter(|_| claim.judged()).map(|reason| format!("\n  {reason}")).unwrap_or_default();
    format!("- **{word}** {}{reason}\n", claim.line())
}

/// Writes the index of all pages into `folder`, in which each page has a folder of its name: as `index.html`
/// with all pictures and claims, and as `README.md` with a line for each page.
pub(crate) fn index(pages: &[Page], scale: &str, folder: &Path) -> Result<(), String> {
    let tally = Tally::of(pages.iter().flat_map(|page| &page.claims)).words();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Intendant: figures</title>\n<style>\n\
         body {{ font: 16px/1.45 sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem }}\n\
         img {{ max-width: 100% }} h2 {{ border-top: 1px solid #bbb; padding-top: 1rem }}\n\
         .holds {{ color: #00704a }} .DEVIATES {{ color: #a04000 }} .BROKEN {{ color: #b00020; font-weight: bold }}\n\
         </style>\n<h1>Figures of the sources, scale {scale}</h1>\n<p>Claims: {tally}.</p>\n<ul>\n"
    );
    let line = |Page { name, title, claims, .. }: &Page| {
        let tally = Tally::of(claims.iter());
        Line { name: name.clone(), title: title.clone(), tally }
    };
    let lines: Vec<Line> = pages.iter().map(line).collect();
    for Line { name, title, tally } in &lines {
        let tally = tally.words();
        let _ = writeln!(html, "<li><a href=\"#{name}\">{name}</a>: {}; {tally}</li>", escaped(title));
    }
    let text = table_of(scale, &lines);
    html.push_str("</ul>\n");
    for Page { name, title, source, pictures, claims } in pages {
        let _ = writeln!(
            html,
            "<h2 id=\"{name}\"><a href=\"{name}/README.md\">{name}</a></h2>\n<p>{}. Source: {}.</p>",
            escaped(title),
            escaped(source)
        );
        for Picture { file, alt } in pictures {
            let _ = writeln!(html, "<p><img src=\"{name}/{file}.svg\" alt=\"{}\"></p>", escaped(alt));
        }
        html.push_str("<ul>\n");
        for claim in claims {
            let word = claim.outcome().map_or("not judged", Outcome::word);
            let reason = claim.reason().filter(|_| claim.judged()).unwrap_or_default();
            let _ = writeln!(
                html,
                "<li><span class=\"{word}\">{word}</span> {}<br>{}</li>",
                escaped(&claim.line()),
                escaped(reason)
            );
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</html>\n");
    for (file, text) in [("index.html", &html), ("README.md", &text)] {
        let path = folder.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The index in Markdown of all pages that `folder` has.
///
/// # Errors
/// If a page cannot be read, or is none of [`write()`].
pub(crate) fn list(folder: &Path, scale: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path().join("README.md");
        if path.exists() {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            lines.push(
                Line::parse(&text).ok_or_else(|| format!("{}: not the page of a figure", path.display()))?,
            );
        }
    }
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(table_of(scale, &lines))
}

/// A line of the index in Markdown.
struct Line {
    name: String,
    title: String,
    tally: Tally,
}

impl Line {
    /// The line of a page of [`write()`].
    fn parse(page: &str) -> Option<Self> {
        let mut lines = page.lines();
        let name = lines.next()?.strip_prefix("# ")?.to_owned();
        let title = lines.nth(1)?.split_once(". Source: ")?.0.to_owned();
        let claims = lines.find_map(|line| line.strip_prefix("## Claims: "));
        Some(Self { name, title, tally: claims.map_or(Some(Tally::default()), Tally::parse)? })
    }
}

fn table_of(scale: &str, lines: &[Line]) -> String {
    let tally = lines.iter().fold(Tally::default(), |sum, line| sum.and(line.tally)).words();
    let mut text = format!(
        "# Figures of the sources, scale {scale}\n\nClaims: {tally}.\n\n| figure | | claims |\n| --- | --- | --- |\n"
    );
    for Line { name, title, tally } in lines {
        let _ = writeln!(text, "| [{name}]({name}/README.md) | {title} | {} |", tally.words());
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::claim;
    use crate::figure::config::Scale;
    use crate::figure::metric::Report;
    use std::collections::BTreeMap;

    #[test]
    fn a_page_has_pictures_numbers_and_verdicts() {
        let figure = Figure::parse(
            "title='times & more'\nsource='thesis Fig. 1'\napp='mf'\nargs=[]\nnotes=['A note.']\n[[runs]]\nname='a'\n\
             args=[]\n[[columns]]\nheading='s'\nmetric='seconds'\n[[claims]]\ntext='short'\nvalue='a: seconds'\n\
             at_most=3.0\npaper='1'\nfitted=true\n[[claims]]\ntext='long'\nvalue='a: seconds'\nat_least=3.0\npaper='1'\n\
             deviation='Because.'\ndeviates=[1.0, 2.5]",
        )
        .expect("a figure");
        let report = Report::parse(r#"{"epochs":[{"seconds":2}]}"#).expect("a report");
        let by_run = BTreeMap::from([("a".to_owned(), vec![report])]);
        let reports = Reports { by_run, ..Reports::new(Scale::Ci) };
        let folder = crate::process::target().join("tmp-pages/fig");
        std::fs::create_dir_all(&folder).expect("a folder");
        let claims =
            figure.claims.iter().map(|c| claim::judge(c, &reports, Scale::Ci).expect("judged")).collect();
        let page = write("fig", &figure, &reports, claims, "the command", &folder).expect("a page");
        let text = std::fs::read_to_string(folder.join("README.md")).expect("a page");
        for part in [
            "![S](s.svg)",
            "| a   | 2.00 |",
            "A note.",
            "## Claims: 1 hold (1 fitted), 1 deviate",
            "the command",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(text.contains("- **DEVIATES** long: 2.00") && text.contains("\n  Because.\n"), "{text}");
        let above = folder.parent().expect("a folder");
        index(&[page], "ci", above).expect("an index");
        let html = std::fs::read_to_string(above.join("index.html")).expect("an index");
        assert!(html.contains("times &amp; more") && html.contains("src=\"fig/s.svg\""), "{html}");
        let index = std::fs::read_to_string(above.join("README.md")).expect("one");
        assert!(
            index.contains("| [fig](fig/README.md) | times & more | 1 hold (1 fitted), 1 deviate |"),
            "{index}"
        );
        assert_eq!(list(above, "ci").expect("pages"), index, "the pages tell the same");
        std::fs::write(folder.join("README.md"), "# fig\n\nOther text.\n").expect("a file");
        assert!(list(above, "ci").expect_err("no page").contains("not the page of a figure"));
    }

    #[test]
    fn tallies_are_read_as_they_are_written() {
        for tally in [
            Tally::default(),
            Tally { hold: 3, ..Tally::default() },
            Tally { hold: 12, fitted: 2, deviate: 1, broken: 4, not_judged: 5 },
        ] {
            assert_eq!(Tally::parse(&tally.words()), Some(tally));
        }
        assert_eq!(Tally::parse("3 do not hold"), None);
    }
}
