//! Values of the common flags from their text. The errors name what is allowed.

use crate::args::{DataSource, Exchange, Technique, TestSource};
use crate::bound::{self, Bounds};
use crate::explain::{self, Keys};

/// The names of all techniques.
fn techniques() -> String {
    let names: Vec<_> = intendant::Technique::ALL.iter().map(|technique| technique.policy().name).collect();
    format!("single, {}", names.join(", "))
}

pub(crate) fn technique(text: &str) -> Result<Technique, String> {
    match text {
        "single" => Ok(Technique::Single),
        name => name
            .parse()
            .map(Technique::Server)
            .map_err(|_| format!("no such technique; use one of {}", techniques())),
    }
}

/// The techniques of a [`Program`](crate::Program) that runs on several nodes.
pub(crate) fn exchange(text: &str) -> Result<Technique, String> {
    if text == Technique::Single.name() {
        return Ok(Technique::Single);
    }
    let found = Exchange::ALL.into_iter().find(|exchange| exchange.name() == text);
    found.map(Technique::Exchange).ok_or_else(|| {
        let names = Exchange::ALL.map(Exchange::name).join(", ");
        format!("this program has no such technique; use one of single, {names}")
    })
}

pub(crate) fn keys(text: &str) -> Result<Keys, String> {
    explain::keys(text)
}

pub(crate) fn bounds(text: &str) -> Result<Bounds, String> {
    bound::parse(text)
}

pub(crate) fn data(text: &str) -> Result<DataSource, String> {
    match text.strip_prefix("builtin:") {
        Some("") => Err("builtin: needs the name of a data set after the colon".to_owned()),
        Some(name) => Ok(DataSource::Builtin(name.to_owned())),
        None if text.is_empty() => Err("the path is empty".to_owned()),
        None => Ok(DataSource::Path(text.into())),
    }
}

pub(crate) fn test(text: &str) -> Result<TestSource, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part < 1.0 => Ok(TestSource::Fraction(part)),
        Ok(_) => Err("a fraction must be greater than 0 and less than 1".to_owned()),
        Err(_) if text.is_empty() => Err("the path is empty".to_owned()),
        Err(_) => Ok(TestSource::File(text.into())),
    }
}

/// Seconds between two checkpoints.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    const ALLOWED: std::ops::RangeInclusive<f64> = 0.0..=604_800.0;
    match text.parse::<f64>() {
        Ok(seconds) if ALLOWED.contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("use seconds between 0 and 604800 (a week)".to_owned()),
    }
}

/// A node that dies, and when, as in `2@1.5`.
pub(crate) fn crash(text: &str) -> Result<crate::simulation::Crash, String> {
    let parts =
        text.split_once('@').and_then(|(node, at)| Some((node.parse().ok()?, at.parse::<f64>().ok()?)));
    match parts {
        Some((node, seconds)) if seconds.is_finite() && seconds >= 0.0 => {
            Ok(crate::simulation::Crash { node, seconds })
        }
        Some(_) | None => {
            Err("a node and the seconds after which it dies, as in 2@1.5, are expected".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_known_by_name() {
        for built in intendant::Technique::ALL {
            assert_eq!(technique(built.policy().name), Ok(Technique::Server(built)));
        }
        let error = technique("clasic").expect_err("a typing error");
        assert!(error.contains("no such technique") && error.contains("adaptive"), "{error}");
    }

    #[test]
    fn test_data_is_a_file_or_a_proper_fraction() {
        assert_eq!(test("0.1"), Ok(TestSource::Fraction(0.1)));
        assert_eq!(test("held/out.txt"), Ok(TestSource::File("held/out.txt".into())));
        for wrong in ["0", "1", "1.5", "-0.1", "nan", ""] {
            assert!(test(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn data_names_a_built_in_set_or_a_path() {
        assert_eq!(data("builtin:codex-s"), Ok(DataSource::Builtin("codex-s".to_owned())));
        assert_eq!(data("some/folder"), Ok(DataSource::Path("some/folder".into())));
        assert!(data("builtin:").is_err());
        assert!(data("").is_err());
    }
}
